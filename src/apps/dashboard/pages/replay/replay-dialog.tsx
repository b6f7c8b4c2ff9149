/** Replays kept messages to one destination: choose it, see the counts of the dry run, begin, follow, cancel. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { wordsOf } from '../../../../contract/destination-words.ts'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import type { Replay, ReplayPlan } from '../../../client/client.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { api, change } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { FailureNotice, Loading } from '../../ui/failure.tsx'
import { Choice } from '../../ui/fields.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { CliTwin, Facts, Notice, Soft } from '../../ui/layout.tsx'
import { exactTime } from '../../ui/text.tsx'
import { CancelReplay, pathOf, ReplayProgress, ReplayState, useReplay } from './progress.tsx'

export interface ReplayRange {
  /** A stream_seq or a time, included. */
  from: number | string
  /** Excluded; or `now`. */
  to: number | string
  /** The number of selected messages. Null: the range of times of the page. */
  selected: number | null
  /** The page shows only some messages of the range. */
  isFiltered: boolean
}

interface ReplayDialogProps {
  pipe: OverviewPipe
  range: ReplayRange
  onClose: () => void
}

export function ReplayDialog({ pipe, range, onClose }: ReplayDialogProps) {
  const lanes = pipe.lanes.filter(({ destination_type: type }) => !wordsOf(type).isPulled)
  const [destinationId, setDestinationId] = useState(lanes[0]?.destination_id ?? '')
  const [begun, setBegun] = useState<Replay | null>(null)
  const lane = { pipeId: pipe.pipe_id, destinationId }
  return (
    <Dialog title="Replay messages" open onClose={onClose}>
      {begun !== null ? (
        <Running lane={lane} first={begun} onClose={onClose} />
      ) : lanes.length === 0 ? (
        <>
          <p>This pipe has no destination that messages can be replayed to.</p>
          <Button onClick={onClose}>Close</Button>
        </>
      ) : (
        <>
          <Choice
            label="Destination"
            value={destinationId}
            options={lanes.map((one) => [one.destination_id, nameOf(one)])}
            onValue={setDestinationId}
          />
          <Planned
            key={destinationId}
            lane={lane}
            name={destinationName(pipe.pipe_name, lanes.find((one) => one.destination_id === destinationId)!)}
            range={range}
            onBegun={setBegun}
            onClose={onClose}
          />
        </>
      )}
    </Dialog>
  )
}

function Planned({
  lane,
  name,
  range,
  onBegun,
  onClose,
}: {
  lane: LaneRef
  name: string
  range: ReplayRange
  onBegun: (replay: Replay) => void
  onClose: () => void
}) {
  const body = { from: range.from, to: range.to }
  const plan = useQuery({
    queryKey: ['pipe', lane.pipeId, 'replay-plan', lane.destinationId, body],
    queryFn: async () => (await change(() => api.call('planReplay', { path: pathOf(lane), body }))).body,
  })
  const begin = useChange(() => api.call('createReplay', { path: pathOf(lane), body }))
  const { data } = plan
  return (
    <>
      {data === undefined ? <Loading error={plan.error} lines={4} /> : <Counts plan={data} range={range} />}
      <FailureNotice failure={begin.error} />
      <div className={formStyles.actions}>
        <Button
          look="primary"
          changes
          disabled={data === undefined || data.messages === 0}
          isBusy={begin.isPending}
          onClick={() => begin.mutate(undefined, { onSuccess: ({ body: replay }) => onBegun(replay) })}
        >
          {data === undefined ? 'Replay' : `Replay ${counted(data.messages, 'message')}`}
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
      <CliTwin
        command={command(
          'lanes',
          'replay',
          name,
          '--from',
          String(body.from),
          '--to',
          String(body.to),
          '--yes',
        )}
      />
    </>
  )
}

/** The result of the dry run, and what is different from what the user may expect. */
function Counts({ plan: data, range }: { plan: ReplayPlan; range: ReplayRange }) {
  return (
    <>
      <Facts
        facts={[
          ['Messages', count(data.messages)],
          ['Records', count(data.records)],
          ['Size', bytes(data.bytes)],
          ['From', data.first_ts === null ? '–' : exactTime(data.first_ts)],
          ['To', data.last_ts === null ? '–' : exactTime(data.last_ts)],
        ]}
      />
      {range.selected !== null && data.messages > range.selected ? (
        <Notice kind="warn">
          All {counted(data.messages, 'message')} from the oldest to the newest selected one are replayed, not
          only the {count(range.selected)} selected.
        </Notice>
      ) : null}
      {range.selected === null && range.isFiltered ? (
        <Notice kind="warn">
          The filters of the page do not apply: every message of the range is replayed.
        </Notice>
      ) : null}
      {data.pending_messages > 0 ? (
        <Soft>
          {counted(data.pending_messages, 'message')} of the range are not delivered yet: the lane delivers
          them by itself.
        </Soft>
      ) : null}
      {data.is_complete ? null : <Soft>Older messages of the range are no longer kept.</Soft>}
      <Soft>
        The destination receives these records again. The lane continues with new messages meanwhile.
      </Soft>
    </>
  )
}

function Running({ lane, first, onClose }: { lane: LaneRef; first: Replay; onClose: () => void }) {
  const replay = useReplay(lane, first)
  return (
    <>
      <div role="status">
        <ReplayState replay={replay} />
      </div>
      <ReplayProgress replay={replay} />
      <Soft>
        The replay continues when this window is closed.{' '}
        <Link to={`/pipes/${lane.pipeId}/destinations/${lane.destinationId}`}>
          Follow it on the page of the lane
        </Link>
      </Soft>
      <div className={formStyles.actions}>
        <CancelReplay lane={lane} replay={replay} />
        <Button onClick={onClose}>Close</Button>
      </div>
    </>
  )
}
