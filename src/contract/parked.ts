/**
 * Parked records: records that a destination permanently rejected, or messages that a user skipped. They are set aside so
 * that the lane continues. Users can read, edit, replay and discard them. Rules: docs/dev/contract.md#parked-records.
 *
 *   parked ──replay──▶ replaying ──stored──▶ gone (404)
 *     ▲                    └──rejected again──▶ parked, with the new error and one more entry in `history`
 *     └────────────────────────────┘
 */
import Type, { type Static } from 'typebox'
import { closed, nullable } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'
import { parkedNextPattern } from './validate.ts'

export const parkedPage = { default: 50, max: 500 } as const
/** Maximum number of ids in one request to replay or discard. */
export const parkedIdsAtOnce = 500
/** Maximum number of earlier errors kept per parked record. The newest are kept. */
export const parkedHistoryEntries = 20

export const parkedReasons = ['permanent_error', 'skipped'] as const
export type ParkedReason = (typeof parkedReasons)[number]
export const parkedStates = ['parked', 'replaying'] as const

const uuid = () => Type.String({ format: 'uuid' })
const timestamp = () => Type.String({ format: 'date-time' })
const count = (minimum = 0) => Type.Integer({ minimum })

export const ParkedError = Type.Object({
  code: Type.String({ description: 'The error code of the destination.' }),
  message: Type.String(),
  column: nullable(Type.String({ description: 'The column, if the destination names it.' })),
  value: nullable(
    Type.String({ description: 'The value, if the destination names it: at most 200 characters.' }),
  ),
})
export type ParkedError = Static<typeof ParkedError>

const parked = {
  parked_id: uuid(),
  msg_id: uuid(),
  record_index: nullable(
    Type.Integer({
      minimum: 0,
      description: 'Its index in the message. Null: the message is parked as a whole.',
    }),
  ),
  stream_seq: count(1),
  parked_ts: Type.String({ format: 'date-time', description: 'The time at which it was last parked.' }),
  reason: Type.Enum([...parkedReasons]),
  state: Type.Enum([...parkedStates], {
    description:
      '`replaying`: a replay waits in the lane or is being delivered. Afterwards the record is either `parked` with another error, or stored and no longer listed.',
  }),
  error: ParkedError,
  attempts: Type.Integer({ minimum: 0, description: 'The number of delivery attempts, including replays.' }),
  replays: Type.Integer({
    minimum: 0,
    description: 'The number of replays, including a running one.',
  }),
  records_count: count(1),
} as const

export const ParkedRecord = Type.Object(parked)
export type ParkedRecord = Static<typeof ParkedRecord>

export const ParkedList = Type.Object({
  parked: Type.Array(ParkedRecord, {
    maxItems: parkedPage.max,
    description: 'In the order of the messages, and of the records within a message.',
  }),
  next: nullable(Type.String({ description: '`after` of the next page; null: this is the last one.' })),
})
export type ParkedList = Static<typeof ParkedList>

/** GET …/parked/{parked_id}. Each record is its original JSON text, so numbers keep all digits. */
export const ParkedDetail = Type.Object({
  ...parked,
  history: Type.Array(Type.Object({ failed_ts: timestamp(), error: ParkedError }), {
    maxItems: parkedHistoryEntries,
    description: 'One entry for each time that it was parked, newest first.',
  }),
  records: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
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
export const ParkedReplay = Type.Object({ parked_id: uuid(), replays: count(1) })
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
  },
  closed,
)
export type ParkedSelection = Static<typeof ParkedSelection>

export const ParkedReplayed = Type.Object({
  replayed: Type.Integer({ minimum: 0, description: 'The number of records that will be replayed.' }),
})
export type ParkedReplayed = Static<typeof ParkedReplayed>

export const ParkedDiscarded = Type.Object({
  discarded: Type.Integer({ minimum: 0, description: 'The number of removed records.' }),
})
export type ParkedDiscarded = Static<typeof ParkedDiscarded>

export const parkedParameters = [
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: parkedPage.max, default: parkedPage.default }),
    description: 'The number of parked records in one response.',
  },
  {
    in: 'query',
    name: 'after',
    schema: Type.String({ pattern: parkedNextPattern }),
    description: 'The `next` of the previous page.',
  },
  {
    in: 'query',
    name: 'error_code',
    schema: Type.String({ minLength: 1, maxLength: resourceLimits.errorCodeCharacters }),
    description: 'Only records with this error.',
  },
  {
    in: 'query',
    name: 'reason',
    schema: Type.Enum([...parkedReasons]),
    description: 'Only records that were parked for this reason.',
  },
] as const
