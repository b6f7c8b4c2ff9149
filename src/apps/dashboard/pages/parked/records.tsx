/** One page of parked records: select some of them, and replay or discard them. */
import { useState } from 'react'
import { Link } from 'wouter'
import type { ParkedReason, ParkedRecord } from '../../../../contract/parked.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import {
  errorWords,
  filterOptions,
  givenFilter,
  isFiltered,
  type ParkedFilter,
  placeWords,
  stateWord,
} from '../../../client/parked.ts'
import { type LaneRef, lanePath } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import type { Column } from '../../ui/layout.tsx'
import { BulkBar, type Selection } from '../../ui/selection.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { parkedPath, useReference } from './crumbs.tsx'
import { OneLine, ParkedTable } from './table.tsx'

interface RecordsProps {
  place: LaneRef
  parked: readonly ParkedRecord[]
  /** The filter of the list, which "Replay all" follows. */
  filter: ParkedFilter
}

export function ParkedRecords({ place, parked, filter }: RecordsProps) {
  return (
    <ParkedTable columns={columnsOf(place)} parked={parked}>
      {(selection) => <BulkActions place={place} selection={selection} filter={filter} />}
    </ParkedTable>
  )
}

interface ActionProps {
  place: LaneRef
  selection: Selection
}

type Asking = 'discard' | 'replay all'

function BulkActions({ place, selection, filter }: ActionProps & Pick<RecordsProps, 'filter'>) {
  const [asking, setAsking] = useState<Asking | null>(null)
  const { ids } = selection
  const replay = useReplay(place, selection)
  const twin = command('parked', 'replay', useReference(place), ...ids)
  const close = () => setAsking(null)
  return (
    <>
      <FailureNotice failure={replay.error} />
      <BulkBar selection={selection}>
        <Button
          look="primary"
          changes
          disabled={ids.length === 0}
          isBusy={replay.isPending}
          onClick={() => void replay.run({ ids }, twin).catch(() => {})}
        >
          Replay {ids.length === 0 ? 'selected' : counted(ids.length, 'record')}
        </Button>
        <Button changes disabled={ids.length === 0} onClick={() => setAsking('discard')}>
          Discard …
        </Button>
        <Button changes onClick={() => setAsking('replay all')}>
          {isFiltered(filter) ? 'Replay all that match …' : 'Replay all …'}
        </Button>
      </BulkBar>
      {asking === 'discard' ? <DiscardDialog place={place} selection={selection} onClose={close} /> : null}
      {asking === 'replay all' ? (
        <ReplayAllDialog place={place} selection={selection} filter={filter} onClose={close} />
      ) : null}
    </>
  )
}

interface ReplayBody {
  ids?: string[]
  all?: true
  error_code?: string
  reason?: ParkedReason
}

/** `run` rejects if the daemon rejects the replay. */
function useReplay(place: LaneRef, selection: Selection) {
  const { mutateAsync, isPending, error } = useChange((body: ReplayBody) =>
    api.call('replayManyParked', { path: lanePath(place), body }),
  )
  const run = async (body: ReplayBody, twin: string) => {
    const { replayed } = (await mutateAsync(body)).body
    say(replayed === 0 ? 'There was nothing to replay.' : `Replaying ${counted(replayed, 'record')}.`, twin)
    selection.clear()
  }
  return { run, isPending, error }
}

function DiscardDialog({ place, selection, onClose }: ActionProps & { onClose: () => void }) {
  const { ids } = selection
  const discard = useChange(() => api.call('discardManyParked', { path: lanePath(place), body: { ids } }))
  const twin = command('parked', 'discard', useReference(place), ...ids, '--yes')
  return (
    <Confirm
      title={`Discard ${counted(ids.length, 'parked record')}?`}
      confirmLabel={`Discard ${counted(ids.length, 'record')}`}
      command={twin}
      run={async () => {
        const { discarded } = (await discard.mutateAsync()).body
        const others = discarded < ids.length ? ' The others are being replayed, or no longer exist.' : ''
        say(`${counted(discarded, 'parked record')} discarded.${others}`, twin)
        selection.clear()
      }}
      onClose={onClose}
    >
      The destination never receives them. This cannot be undone.
    </Confirm>
  )
}

function ReplayAllDialog({
  place,
  selection,
  filter,
  onClose,
}: ActionProps & Pick<RecordsProps, 'filter'> & { onClose: () => void }) {
  const replay = useReplay(place, selection)
  const reference = useReference(place)
  const options = isFiltered(filter) ? filterOptions(filter) : ['--all']
  const twin = command('parked', 'replay', reference, ...options)
  return (
    <Confirm
      title={<ReplayAllTitle filter={filter} />}
      confirmLabel="Replay all"
      isDanger={false}
      command={twin}
      run={() => replay.run({ all: true, ...givenFilter(filter) }, twin)}
      onClose={onClose}
    >
      Each is delivered again as stored, one after the other. Records that are rejected again stay parked.
    </Confirm>
  )
}

function ReplayAllTitle({ filter: { error_code: code, reason } }: Pick<RecordsProps, 'filter'>) {
  const which = reason === undefined ? 'parked' : reason === 'skipped' ? 'skipped' : 'rejected'
  if (code === undefined) return `Replay all ${which} records of this lane?`
  return (
    <>
      Replay all {which} records with the error <Outside text={code} />?
    </>
  )
}

function columnsOf(place: LaneRef): Column<ParkedRecord>[] {
  return [
    {
      label: 'Parked',
      cell: (one) => (
        <OneLine>
          <Ago at={one.parked_ts} />
        </OneLine>
      ),
      sortBy: (one) => one.parked_ts,
    },
    {
      label: 'Record',
      cell: (one) => (
        <OneLine>
          <Link to={parkedPath(place, one.parked_id)}>{placeWords(one)}</Link>
        </OneLine>
      ),
      sortBy: placeWords,
    },
    { label: 'State', cell: (one) => <OneLine>{stateWord(one)}</OneLine>, sortBy: stateWord },
    { label: 'Message', cell: (one) => <Link to={`/messages/${one.msg_id}`}>Open message</Link> },
    {
      label: 'Error',
      cell: (one) => <Outside text={errorWords(one.error)} />,
      isLong: true,
      sortBy: (one) => errorWords(one.error),
    },
    {
      label: 'Attempts',
      cell: (one) => count(one.attempts),
      isNumber: true,
      sortBy: (one) => one.attempts,
    },
  ]
}
