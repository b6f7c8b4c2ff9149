/** One page of parked records: select some of them, and replay or discard them. */
import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import type { ParkedRecord } from '../../../../contract/parked.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { errorWords, placeWords, shortIds } from '../../../client/parked.ts'
import { type LaneRef, lanePath } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, Check, formStyles } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { type Column, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { parkedPath, useReference } from './crumbs.tsx'
import styles from './parked.module.css'

interface RecordsProps {
  place: LaneRef
  parked: readonly ParkedRecord[]
  /** The filter by error, which "Replay all" follows. */
  errorCode: string | undefined
}

export function ParkedRecords({ place, parked, errorCode }: RecordsProps) {
  const selection = useSelection(parked.map((one) => one.parked_id))
  return (
    <>
      <BulkActions place={place} selection={selection} errorCode={errorCode} />
      <Table
        caption="Parked records"
        columns={columnsOf(place, parked, selection)}
        rows={parked}
        keyOf={(one) => one.parked_id}
      />
    </>
  )
}

interface Selection {
  /** In the order of the page. */
  ids: string[]
  isSelected: (id: string) => boolean
  areAllSelected: boolean
  select: (id: string, isSelected: boolean) => void
  selectAll: (areSelected: boolean) => void
  clear: () => void
}

/** Records that are no longer on the page are not selected. */
function useSelection(shown: readonly string[]): Selection {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const ids = shown.filter((id) => selected.has(id))
  return {
    ids,
    isSelected: (id) => selected.has(id),
    areAllSelected: ids.length === shown.length,
    select: (id, isSelected) =>
      setSelected(new Set(isSelected ? [...ids, id] : ids.filter((one) => one !== id))),
    selectAll: (areSelected) => setSelected(new Set(areSelected ? shown : [])),
    clear: () => setSelected(new Set()),
  }
}

interface ActionProps {
  place: LaneRef
  selection: Selection
}

type Asking = 'discard' | 'replay all'

function BulkActions({ place, selection, errorCode }: ActionProps & Pick<RecordsProps, 'errorCode'>) {
  const [asking, setAsking] = useState<Asking | null>(null)
  const { ids } = selection
  const replay = useReplay(place, selection)
  const twin = command('parked', 'replay', useReference(place), ...ids)
  const close = () => setAsking(null)
  return (
    <>
      <FailureNotice failure={replay.error} />
      <div className={formStyles.actions}>
        <Check label="All on this page" checked={selection.areAllSelected} onValue={selection.selectAll} />
        <Button
          look="primary"
          changes
          disabled={ids.length === 0 || replay.isPending}
          onClick={() => void replay.run({ ids }, twin).catch(() => {})}
        >
          Replay {ids.length === 0 ? 'selected' : counted(ids.length, 'record')}
        </Button>
        <Button changes disabled={ids.length === 0} onClick={() => setAsking('discard')}>
          Discard …
        </Button>
        <Button changes onClick={() => setAsking('replay all')}>
          Replay all …
        </Button>
      </div>
      {asking === 'discard' ? <DiscardDialog place={place} selection={selection} onClose={close} /> : null}
      {asking === 'replay all' ? (
        <ReplayAllDialog place={place} selection={selection} errorCode={errorCode} onClose={close} />
      ) : null}
    </>
  )
}

interface ReplayBody {
  ids?: string[]
  all?: true
  error_code?: string
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
  errorCode,
  onClose,
}: ActionProps & Pick<RecordsProps, 'errorCode'> & { onClose: () => void }) {
  const replay = useReplay(place, selection)
  const reference = useReference(place)
  const twin = command(
    ...['parked', 'replay', reference],
    ...(errorCode === undefined ? ['--all'] : ['--error-code', errorCode]),
  )
  return (
    <Confirm
      title={
        errorCode === undefined ? (
          'Replay all parked records of this lane?'
        ) : (
          <>
            Replay all records with the error <Outside text={errorCode} />?
          </>
        )
      }
      confirmLabel="Replay all"
      isDanger={false}
      command={twin}
      run={() => replay.run({ all: true, ...(errorCode !== undefined && { error_code: errorCode }) }, twin)}
      onClose={onClose}
    >
      Each is delivered again as stored, one after the other. Records that are rejected again stay parked.
    </Confirm>
  )
}

function columnsOf(
  place: LaneRef,
  parked: readonly ParkedRecord[],
  selection: Selection,
): Column<ParkedRecord>[] {
  const short = shortIds(parked.map((one) => one.parked_id))
  return [
    {
      label: 'Select',
      cell: ({ parked_id: id }) => (
        <div className={styles.oneLine}>
          <Check
            label={short.get(id) ?? id}
            checked={selection.isSelected(id)}
            onValue={(isSelected) => selection.select(id, isSelected)}
          />
        </div>
      ),
    },
    {
      label: 'Parked',
      cell: (one) => (
        <OneLine>
          <Ago at={one.parked_ts} />
        </OneLine>
      ),
    },
    {
      label: 'Record',
      cell: (one) => (
        <OneLine>
          <Link to={parkedPath(place, one.parked_id)}>{placeWords(one)}</Link>
        </OneLine>
      ),
    },
    { label: 'State', cell: (one) => <OneLine>{stateWords(one)}</OneLine> },
    { label: 'Message', cell: (one) => <Link to={`/messages/${one.msg_id}`}>Open message</Link> },
    { label: 'Error', cell: (one) => <Outside text={errorWords(one.error)} />, isLong: true },
    { label: 'Attempts', cell: (one) => count(one.attempts), isNumber: true },
  ]
}

function OneLine({ children }: { children: ReactNode }) {
  return <span className={styles.oneLine}>{children}</span>
}

function stateWords({ state, reason }: ParkedRecord): string {
  if (state === 'replaying') return 'replaying'
  return reason === 'skipped' ? 'skipped' : 'rejected'
}
