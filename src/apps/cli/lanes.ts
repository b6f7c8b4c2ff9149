/** `pipectl lanes …`: shows the progress of delivery, and unblocks lanes. */
import type { Command } from 'commander'
import type { LaneStatus } from '../../contract/destination.ts'
import { isFailing, severity } from '../../contract/state-words.ts'
import { ago, bytes, count, counted, duration } from '../../platform/quantities.ts'
import { type Failure, usageFailure } from '../client/failure.ts'
import { errorLine, faultWords, skipHelps } from '../client/lane-error.ts'
import {
  allDestinations,
  type DestinationOfPipe,
  describeTarget,
  fullName,
  kindOf,
  lanePath,
  stateOf,
} from '../client/workspace.ts'
import { addBlockingMessageCommand } from './blocking-message.ts'
import { clientCommand, group } from './define.ts'
import { addLatencyCommand } from './latency.ts'
import { listView, oneView, print, type View } from './output.ts'
import { addReplayCommands } from './range-replays.ts'
import { findDestination, findPipe } from './references.ts'
import { addRetryCommand, nothingBlocks } from './retry-lanes.ts'
import { addRewindCommand } from './rewind.ts'
import { confirm, say } from './terminal.ts'

export function addLanesCommands(program: Command): void {
  const lanes = group(program, 'lanes', 'the position and the state of each destination')
  clientCommand<{ blocked?: boolean }>(lanes, {
    usage: 'list [pipe]',
    summary: 'list the lanes of a pipe, or of all pipes, those that need attention first',
    examples: ['pipectl lanes list', 'pipectl lanes list --blocked -o name'],
    options: (command) => command.option('--blocked', 'only lanes that are retrying, stuck or blocked'),
    action: async (client, [reference], options) => {
      const pipes = reference === undefined ? undefined : [await findPipe(client, reference)]
      const nowMs = Date.now()
      const all = (await allDestinations(client, pipes)).sort(
        (a, b) => severity(b.destination, nowMs) - severity(a.destination, nowMs),
      )
      const shown = options.blocked === true ? all.filter((one) => severity(one.destination, nowMs) > 0) : all
      await print(laneList(shown, nowMs), options.output)
    },
  })
  clientCommand<{ force?: boolean }>(lanes, {
    usage: 'skip <destination>',
    summary: 'park the blocking message, and continue with the next one',
    examples: ['pipectl lanes skip orders/database --yes'],
    destructive: true,
    options: (command) =>
      command.option('--force', 'skip even if no record is at fault, and a skip does not help'),
    action: async (client, [reference], options) => {
      const { pipe, destination } = await findDestination(client, reference!)
      const blocking = destination.lane.blocking_msg_id
      const what = blocking === null ? 'the blocking message, if there is one,' : `message ${blocking}`
      const name = fullName(pipe, destination)
      if (options.force !== true && !skipHelps(destination.lane)) throw noRecordAtFault(name, destination)
      await confirm(`Skip ${what} of ${name}? It is parked, and the lane continues.`, options.yes)
      const reply = await client.call('skipBlockingMessage', { path: lanePath(destination) })
      await print(oneView(reply.text, reply.body.status, [['status', reply.body.status]]), options.output)
      if (!reply.body.skipped) throw nothingBlocks()
      say(`Skipped ${what} of ${name}.`)
    },
  })
  addRetryCommand(lanes)
  addLatencyCommand(lanes)
  addRewindCommand(lanes)
  addReplayCommands(lanes)
  addBlockingMessageCommand(lanes)
}

function noRecordAtFault(name: string, { lane }: DestinationOfPipe['destination']): Failure {
  return usageFailure(
    `a skip does not help ${name}: no record is at fault (${errorLine(lane.last_error)}), so the next message would fail too`,
    `correct the destination (\`pipectl destinations test ${name}\`), then \`pipectl lanes retry ${name}\`; --force skips anyway`,
  )
}

function laneList(lanes: readonly DestinationOfPipe[], nowMs: number): View {
  const item = ({ pipe, destination }: DestinationOfPipe) => ({
    pipe_name: pipe.pipe_name,
    pipe_id: pipe.pipe_id,
    destination_id: destination.destination_id,
    destination_name: destination.destination_name,
    destination_type: destination.destination_type,
    destination_status: destination.destination_status,
    ...destination.lane,
    is_failing: isFailing(destination.lane, nowMs),
  })
  const nameOf = ({ pipe, destination }: DestinationOfPipe) => fullName(pipe, destination)
  const oldest = ({ pending_messages, oldest_pending_age_seconds: age }: LaneStatus) =>
    pending_messages === 0 ? '-' : duration(age)
  return listView(lanes, {
    json: JSON.stringify({ lanes: lanes.map(item) }),
    item,
    name: nameOf,
    columns: [
      [{ label: 'LANE', shrinksTo: 20, keepsEnd: true }, nameOf],
      ['STATE', ({ destination }) => stateOf(destination)],
      [
        'BACKLOG',
        ({ destination: { lane } }) => `${count(lane.pending_messages)} (${bytes(lane.pending_bytes)})`,
      ],
      [{ label: 'OLDEST', gives: 2 }, ({ destination }) => oldest(destination.lane)],
      [{ label: 'ATTEMPTS', gives: 3 }, ({ destination }) => String(destination.lane.attempts)],
      [{ label: 'TARGET', shrinksTo: 16, gives: 1 }, ({ destination }) => describeTarget(destination)],
      [{ label: 'KIND', gives: 4 }, ({ destination }) => kindOf(destination)],
      [{ label: 'DESTINATION ID', isSpare: true }, ({ destination }) => destination.destination_id],
    ],
    // A note, because the error is important and a column would truncate it.
    note: ({ destination: { lane } }) => (lane.last_error === null ? null : errorLine(lane.last_error)),
    empty: 'no lanes; add a destination with `pipectl destinations create PIPE`',
  })
}

/** The rows of one destination, for `destinations get`. */
export function laneRows(one: Pick<DestinationOfPipe, 'destination'>, nowMs: number): string[][] {
  const { lane } = one.destination
  return [
    ['target', describeTarget(one.destination)],
    ['lane_state', stateOf(one.destination)],
    ['backlog', `${counted(lane.pending_messages, 'message')}, ${bytes(lane.pending_bytes)}`],
    ['oldest pending', duration(lane.oldest_pending_age_seconds)],
    ['cursor', `${lane.cursor_seq} of ${lane.head_seq}`],
    ['delivered records', count(lane.delivered_records)],
    ['filtered records', count(lane.filtered_records ?? 0)],
    ['skipped, dropped messages', `${lane.skipped_messages}, ${lane.dropped_messages}`],
    ['last delivered', ago(lane.last_delivered_ts, nowMs)],
    ['last error', errorLine(lane.last_error)],
    ...(lane.last_error?.fault
      ? [['at fault', faultWords(lane.last_error, one.destination.destination_type)]]
      : []),
  ]
}
