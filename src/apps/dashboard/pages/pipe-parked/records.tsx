/** One page of records that are parked at a pipe: select some of them, or all that match, and replay or discard them. */
import { useState } from 'react'
import { Link } from 'wouter'
import type { PipeParkedRecord } from '../../../../contract/pipe-parked.ts'
import { bytes, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { faultWords } from '../../../client/parked.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Check } from '../../ui/fields.tsx'
import type { Column } from '../../ui/layout.tsx'
import { BulkBar, type Selection } from '../../ui/selection.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { OneLine, ParkedTable } from '../parked/table.tsx'
import { pipeParkedPath, usePipeName } from './queries.ts'

interface RecordsProps {
  pipeId: string
  parked: readonly PipeParkedRecord[]
  /** The filter of the list, which the actions on all records follow. Empty: none. */
  errorPath: string
}

export function PipeParkedRecords({ pipeId, parked, errorPath }: RecordsProps) {
  return (
    <ParkedTable columns={columnsOf(pipeId)} parked={parked}>
      {(selection) => <BulkActions pipeId={pipeId} selection={selection} errorPath={errorPath} />}
    </ParkedTable>
  )
}

/** The records of a bulk action. */
interface Chosen {
  body: { ids: string[] } | { all: true; error_path?: string }
  /** The arguments of the command. */
  args: readonly string[]
  /** Such as `3 parked records`. */
  words: string
}

function allOf(errorPath: string): Chosen {
  if (errorPath === '')
    return { body: { all: true }, args: ['--all'], words: 'all records parked at the pipe' }
  return {
    body: { all: true, error_path: errorPath },
    args: ['--error-path', errorPath],
    words: `all records whose first error is at ${errorPath}`,
  }
}

interface ActionProps {
  pipeId: string
  selection: Selection
}

function BulkActions({ pipeId, selection, errorPath }: ActionProps & { errorPath: string }) {
  const [asking, setAsking] = useState<{ action: 'replay' | 'discard'; chosen: Chosen } | null>(null)
  const { ids } = selection
  const selected = { body: { ids }, args: ids, words: counted(ids.length, 'parked record') }
  const all = allOf(errorPath)
  const ofAll = errorPath === '' ? 'all' : 'all that match'
  const dialog = { pipeId, selection, onClose: () => setAsking(null) }
  const nothing = ids.length === 0
  return (
    <>
      <BulkBar selection={selection}>
        <Button
          look="primary"
          changes
          disabled={nothing}
          onClick={() => setAsking({ action: 'replay', chosen: selected })}
        >
          Replay {nothing ? 'selected' : counted(ids.length, 'record')} …
        </Button>
        <Button changes disabled={nothing} onClick={() => setAsking({ action: 'discard', chosen: selected })}>
          Discard …
        </Button>
        <Button changes onClick={() => setAsking({ action: 'replay', chosen: all })}>
          Replay {ofAll} …
        </Button>
        <Button changes onClick={() => setAsking({ action: 'discard', chosen: all })}>
          Discard {ofAll} …
        </Button>
      </BulkBar>
      {asking?.action === 'replay' ? <ReplayDialog {...dialog} chosen={asking.chosen} /> : null}
      {asking?.action === 'discard' ? <DiscardDialog {...dialog} chosen={asking.chosen} /> : null}
    </>
  )
}

interface DialogProps extends ActionProps {
  chosen: Chosen
  onClose: () => void
}

function ReplayDialog({ pipeId, selection, chosen, onClose }: DialogProps) {
  const [isForced, setForced] = useState(false)
  const replay = useChange(() =>
    api.call('replayManyPipeParked', {
      path: { pipe_id: pipeId },
      body: { ...chosen.body, force: isForced },
    }),
  )
  const force = isForced ? ['--force'] : []
  const twin = command('pipes', 'parked', 'replay', usePipeName(pipeId), ...chosen.args, ...force)
  return (
    <Confirm
      title={<Outside text={`Replay ${chosen.words}?`} />}
      confirmLabel="Replay"
      isDanger={false}
      command={twin}
      run={async () => {
        const { replayed, mismatched } = (await replay.mutateAsync()).body
        const left =
          mismatched === 0 ? '' : ` ${counted(mismatched, 'record')} still not matching the schema.`
        say(`${counted(replayed, 'record')} stored.${left}`, twin)
        selection.clear()
      }}
      onClose={onClose}
    >
      <p>Each is checked against the present schema and stored as a new message.</p>
      <Check
        label="Store records that do not match, too"
        hint="Otherwise they stay parked."
        checked={isForced}
        onValue={setForced}
      />
    </Confirm>
  )
}

function DiscardDialog({ pipeId, selection, chosen, onClose }: DialogProps) {
  const discard = useChange(() =>
    api.call('discardManyPipeParked', { path: { pipe_id: pipeId }, body: chosen.body }),
  )
  const twin = command('pipes', 'parked', 'discard', usePipeName(pipeId), ...chosen.args, '--yes')
  return (
    <Confirm
      title={<Outside text={`Discard ${chosen.words}?`} />}
      confirmLabel="Discard"
      command={twin}
      run={async () => {
        const { discarded } = (await discard.mutateAsync()).body
        say(`${counted(discarded, 'parked record')} discarded.`, twin)
        selection.clear()
      }}
      onClose={onClose}
    >
      No destination receives them. This cannot be undone. Records that are being replayed are not discarded.
    </Confirm>
  )
}

function columnsOf(pipeId: string): Column<PipeParkedRecord>[] {
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
          <Link to={pipeParkedPath(pipeId, one.parked_id)}>Show #{one.record_index}</Link>
        </OneLine>
      ),
    },
    { label: 'State', cell: (one) => <OneLine>{one.state}</OneLine>, sortBy: (one) => one.state },
    { label: 'Errors', cell: (one) => <Outside text={faultWords(one)} />, isLong: true, sortBy: faultWords },
    {
      label: 'Size',
      cell: (one) => bytes(one.record_bytes),
      isNumber: true,
      sortBy: (one) => one.record_bytes,
    },
  ]
}
