/**
 * Parked records: records that a destination permanently rejected, or messages that a user skipped. They are set aside so
 * that the lane continues. Users can read, edit, replay and discard them. Rules: docs/dev/contract.md#parked-records.
 *
 *   parked ──replay──▶ replaying ──stored──▶ gone (404)
 *     ▲                    └──rejected again──▶ parked, with the new error and one more entry in `history`
 *     └────────────────────────────┘
 */
import Type, { type Static } from 'typebox'
import { resourceLimits } from './resource-limits.ts'
import {
  anyObject,
  closed,
  count,
  nullable,
  pageSize,
  positive,
  query,
  string,
  timestamp,
  uuid,
} from './schema-parts.ts'
import { parkedNextPattern } from './validate.ts'

export const parkedPage = { default: 50, max: 500 } as const
/** Maximum number of ids in one request to replay or discard. */
export const parkedIdsAtOnce = 500
/** Maximum number of earlier errors kept per parked record. The newest are kept. */
export const parkedHistoryEntries = 20

export const parkedReasons = ['permanent_error', 'skipped'] as const
export type ParkedReason = (typeof parkedReasons)[number]
export const parkedStates = ['parked', 'replaying'] as const

export const ParkedError = Type.Object({
  code: string('The error code of the destination.'),
  message: Type.String(),
  column: nullable(string('The column, if the destination names it.')),
  value: nullable(string('The value, if the destination names it: at most 200 characters.')),
})
export type ParkedError = Static<typeof ParkedError>

const parked = {
  parked_id: uuid(),
  msg_id: uuid(),
  record_index: nullable(count('Its index in the message. Null: the message is parked as a whole.')),
  stream_seq: positive(),
  parked_ts: timestamp('The time at which it was last parked.'),
  reason: Type.Enum([...parkedReasons]),
  state: Type.Enum([...parkedStates], {
    description:
      '`replaying`: a replay waits in the lane or is being delivered. Afterwards the record is either `parked` with another error, or stored and no longer listed.',
  }),
  error: ParkedError,
  attempts: count('The number of delivery attempts, including replays.'),
  replays: count('The number of replays, including a running one.'),
  records_count: positive(),
} as const

export const ParkedRecord = Type.Object(parked)
export type ParkedRecord = Static<typeof ParkedRecord>

export const ParkedList = Type.Object({
  parked: Type.Array(ParkedRecord, {
    maxItems: parkedPage.max,
    description: 'In the order of the messages, and of the records within a message.',
  }),
  next: nullable(string('`after` of the next page; null: this is the last one.')),
})
export type ParkedList = Static<typeof ParkedList>

/** GET …/parked/{parked_id}. Each record is its original JSON text, so numbers keep all digits. */
export const ParkedDetail = Type.Object({
  ...parked,
  history: Type.Array(Type.Object({ failed_ts: timestamp(), error: ParkedError }), {
    maxItems: parkedHistoryEntries,
    description: 'One entry for each time that it was parked, newest first.',
  }),
  records: Type.Array(anyObject(), {
    minItems: 1,
    description: 'The records as they were sent, including enrichment, or as they were last edited.',
  }),
})

export type ParkedDetail = Static<typeof ParkedDetail>

/** POST …/parked/{parked_id}/replay. */
export const ParkedReplayRequest = Type.Object(
  {
    records: Type.Optional(
      Type.Array(Type.Object({}, { additionalProperties: true }), {
        minItems: 1,
        maxItems: resourceLimits.recordsPerRequest,
        description:
          'Records that replace the stored ones before the replay begins, whatever its result: as many as are parked, or fewer. Their text is kept as sent.',
      }),
    ),
  },
  closed,
)
export type ParkedReplayRequest = Static<typeof ParkedReplayRequest>

/** The response to a replay. `replays` identifies this replay when the client asks for its result. */
export const ParkedReplay = Type.Object({ parked_id: uuid(), replays: positive() })
export type ParkedReplay = Static<typeof ParkedReplay>

/** POST …/parked/replay and …/parked/discard: either `ids` or `all`. */
export const ParkedSelection = Type.Object(
  {
    ids: Type.Optional(
      Type.Array(uuid(), {
        minItems: 1,
        maxItems: parkedIdsAtOnce,
        description: 'The response does not count ids that are not parked here or are being replayed.',
      }),
    ),
    all: Type.Optional(Type.Literal(true)),
    error_code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: resourceLimits.errorCodeCharacters,
        description: 'Only records with this error.',
      }),
    ),
    reason: Type.Optional(
      Type.Enum([...parkedReasons], { description: 'Only records that were parked for this reason.' }),
    ),
  },
  closed,
)
export type ParkedSelection = Static<typeof ParkedSelection>

export const ParkedReplayed = Type.Object({
  replayed: count('The number of records that will be replayed.'),
})
export type ParkedReplayed = Static<typeof ParkedReplayed>

export const ParkedDiscarded = Type.Object({
  discarded: count('The number of removed records.'),
})
export type ParkedDiscarded = Static<typeof ParkedDiscarded>

export const parkedParameters = [
  query('limit', pageSize(parkedPage), 'The number of parked records in one response.'),
  query('after', Type.String({ pattern: parkedNextPattern }), 'The `next` of the previous page.'),
  query(
    'error_code',
    Type.String({ minLength: 1, maxLength: resourceLimits.errorCodeCharacters }),
    'Only records with this error.',
  ),
  query('reason', Type.Enum([...parkedReasons]), 'Only records that were parked for this reason.'),
] as const
