/**
 * Parked records: records that a destination permanently rejected, or messages that a user skipped, set aside so that
 * the lane continues. They can be read, edited, replayed and discarded. Rules: docs/dev/contract.md#parked-records.
 *
 *   parked ──replay──▶ replaying ──stored──▶ gone (404)
 *     ▲                    └──refused again──▶ parked, with the new error and one more in `history`
 *     └────────────────────────────┘
 */
import Type, { type Static } from 'typebox'
import { closed, nullable } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'
import { parkedNextPattern } from './validate.ts'

export const parkedPage = { default: 50, max: 500 } as const
/** Ids in one request that replays or discards several. */
export const parkedIdsAtOnce = 500
/** Errors of earlier tries that are kept of one parked record: the newest. */
export const parkedHistoryEntries = 20

export const parkedReasons = ['permanent_error', 'skipped'] as const
export type ParkedReason = (typeof parkedReasons)[number]
export const parkedStates = ['parked', 'replaying'] as const

const uuid = () => Type.String({ format: 'uuid' })
const timestamp = () => Type.String({ format: 'date-time' })
const count = (minimum = 0) => Type.Integer({ minimum })

export const ParkedError = Type.Object({
  code: Type.String({ description: "The destination's own." }),
  message: Type.String(),
  column: nullable(Type.String({ description: 'Where the destination names it.' })),
  value: nullable(
    Type.String({ description: 'Where the destination names it: at most 200 characters of it.' }),
  ),
})
export type ParkedError = Static<typeof ParkedError>

const parked = {
  parked_id: uuid(),
  msg_id: uuid(),
  record_index: nullable(
    Type.Integer({
      minimum: 0,
      description: 'Its place in the message. Null: the message as a whole is parked.',
    }),
  ),
  stream_seq: count(1),
  parked_ts: Type.String({ format: 'date-time', description: 'When it was parked last.' }),
  reason: Type.Enum([...parkedReasons]),
  state: Type.Enum([...parkedStates], {
    description:
      '`replaying`: a replay of it waits in the lane or is under way. It ends in `parked` with another error, or the record is stored and gone from here.',
  }),
  error: ParkedError,
  attempts: Type.Integer({ minimum: 0, description: 'Attempts to deliver it, those of replays included.' }),
  replays: Type.Integer({
    minimum: 0,
    description: 'How often it was replayed, the one under way included.',
  }),
  records_count: count(1),
} as const

export const ParkedRecord = Type.Object(parked)
export type ParkedRecord = Static<typeof ParkedRecord>

export const ParkedList = Type.Object({
  parked: Type.Array(ParkedRecord, {
    maxItems: parkedPage.max,
    description: 'In the order of their messages, and of the records in one.',
  }),
  next: nullable(Type.String({ description: '`after` of the next page; null: this is the last one.' })),
})
export type ParkedList = Static<typeof ParkedList>

/** GET …/parked/{parked_id}. The records are each one's own JSON text: numbers keep their digits. */
export const ParkedDetail = Type.Object({
  ...parked,
  history: Type.Array(Type.Object({ failed_ts: timestamp(), error: ParkedError }), {
    maxItems: parkedHistoryEntries,
    description: 'Of each time that it was parked, newest first.',
  }),
  records: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
    minItems: 1,
    description: 'As they were sent, enrichment included, or as they were last edited.',
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
          'Replace the stored ones, before the replay begins and whatever comes of it. As many as are parked, or fewer. Their text is kept as sent.',
      }),
    ),
  },
  closed,
)
export type ParkedReplayRequest = Static<typeof ParkedReplayRequest>

/** Its response: `replays` tells this replay from others when asking what became of it. */
export const ParkedReplay = Type.Object({ parked_id: uuid(), replays: count(1) })
export type ParkedReplay = Static<typeof ParkedReplay>

/** POST …/parked/replay and …/parked/discard: either `ids` or `all`. */
export const ParkedSelection = Type.Object(
  {
    ids: Type.Optional(
      Type.Array(uuid(), {
        minItems: 1,
        maxItems: parkedIdsAtOnce,
        description: 'Ids that are not parked here, or are being replayed, are not counted in the response.',
      }),
    ),
    all: Type.Optional(Type.Literal(true)),
    error_code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: resourceLimits.errorCodeCharacters,
        description: 'Of these, the ones with this error.',
      }),
    ),
  },
  closed,
)
export type ParkedSelection = Static<typeof ParkedSelection>

export const ParkedReplayed = Type.Object({
  replayed: Type.Integer({ minimum: 0, description: 'How many are replayed now.' }),
})
export type ParkedReplayed = Static<typeof ParkedReplayed>

export const ParkedDiscarded = Type.Object({
  discarded: Type.Integer({ minimum: 0, description: 'How many were removed.' }),
})
export type ParkedDiscarded = Static<typeof ParkedDiscarded>

export const parkedParameters = [
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: parkedPage.max, default: parkedPage.default }),
    description: 'Parked records of one response.',
  },
  {
    in: 'query',
    name: 'after',
    schema: Type.String({ pattern: parkedNextPattern }),
    description: 'The `next` of the page before.',
  },
  {
    in: 'query',
    name: 'error_code',
    schema: Type.String({ minLength: 1, maxLength: resourceLimits.errorCodeCharacters }),
    description: 'Those with this error.',
  },
  {
    in: 'query',
    name: 'reason',
    schema: Type.Enum([...parkedReasons]),
    description: 'Those parked for this reason.',
  },
] as const
