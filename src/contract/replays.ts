/**
 * Replays: kept messages of a pipe that one destination receives again. Rules: docs/dev/contract.md#replays.
 *
 *   waiting ──▶ running ──▶ done
 *      └───────────┴──────▶ cancelled, failed
 */
import Type, { type Static } from 'typebox'
import { AuditActor } from './audit.ts'
import { ParkedError } from './parked.ts'
import { resourceLimits } from './resource-limits.ts'
import { boolean, closed, count, nullable, positive, timestamp, uuid } from './schema-parts.ts'

export const replayStates = ['waiting', 'running', 'done', 'cancelled', 'failed'] as const
export type ReplayState = (typeof replayStates)[number]

const bound = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.String()], { description })

const range = {
  from: bound(
    'The start, included: an ISO 8601 time with its offset, which is compared with the time at which messages were accepted; the stream_seq of a message; or "earliest".',
  ),
  to: bound('The end, excluded: an ISO 8601 time with its offset, a stream_seq, or "now".'),
} as const

/** POST …/replays and POST …/replays/dry-run. */
export const ReplayRequest = Type.Object(range, closed)
export type ReplayRequest = Static<typeof ReplayRequest>

const total = {
  messages: count('The messages of the range that the lane has passed and that are still kept.'),
  records: count(),
  bytes: count(),
  first_seq: nullable(positive('The stream_seq of the first message. Null: the range has no message.')),
  last_seq: nullable(positive()),
} as const

export const ReplayPlan = Type.Object({
  ...range,
  ...total,
  first_ts: nullable(timestamp('The time at which the first message was accepted.')),
  last_ts: nullable(timestamp()),
  is_complete: boolean(
    'False: the pipe has messages from before the first one that are no longer kept, and some of them may belong to the range.',
  ),
  pending_messages: count(
    'The messages of the range that the lane has not passed yet. It delivers them by itself, so they are not part of the replay.',
  ),
})
export type ReplayPlan = Static<typeof ReplayPlan>

export const Replay = Type.Object({
  replay_id: uuid(),
  state: Type.Enum([...replayStates], {
    description:
      '`waiting`: behind other replays of this destination, of which one runs at a time. `failed`: `error` says why; the messages after `done_seq` were not replayed.',
  }),
  ...range,
  ...total,
  done_messages: count('The messages that are done, whatever became of their records.'),
  done_seq: nullable(count('All messages up to this stream_seq are done. Null: the replay has not begun.')),
  replayed_records: count('The records that the destination has stored.'),
  parked_records: count('The records that the destination rejected and that were parked.'),
  filtered_records: count('The records that the transform of the destination left out.'),
  expired_messages: count('The messages that were no longer kept, or damaged, when it was their turn.'),
  expired_records: count(),
  attempts: count('The failed attempts at the current batch.'),
  next_attempt_ts: nullable(timestamp('The time of the next attempt after a failed one.')),
  error: nullable(ParkedError),
  created_ts: timestamp(),
  created_by: AuditActor,
  started_ts: nullable(timestamp()),
  finished_ts: nullable(timestamp()),
})
export type Replay = Static<typeof Replay>

const { replaysPerLane, finishedReplaysPerLane, finishedReplayDays } = resourceLimits

export const ReplayList = Type.Object({
  replays: Type.Array(Replay, {
    maxItems: replaysPerLane + finishedReplaysPerLane,
    description: `Newest first: all that are waiting or running, and the newest ${finishedReplaysPerLane} others of the last ${finishedReplayDays} days.`,
  }),
})
export type ReplayList = Static<typeof ReplayList>
