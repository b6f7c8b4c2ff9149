/**
 * Records that are parked at their pipe because they do not match its schema. No lane has seen them. Users can read,
 * edit, replay and discard them. Rules: docs/dev/contract.md#records-parked-at-the-pipe.
 */
import Type, { type Static } from 'typebox'
import { parkedIdsAtOnce, parkedPage, parkedStates } from './parked.ts'
import {
  anyObject,
  closed,
  count,
  nullable,
  pageSize,
  query,
  string,
  timestamp,
  uuid,
} from './schema-parts.ts'
import { pipeParkedNextPattern } from './validate.ts'

/** Maximum number of errors kept per record. */
export const pipeParkedErrors = 10
/** The longest path of an error, in characters; a longer one is cut. */
export const errorPathCharacters = 200

export const pipeParkedReasons = ['schema_mismatch'] as const

export const SchemaFault = Type.Object({
  path: string('JSON Pointer of the value in the record. Empty: the record itself.'),
  message: string('What the schema allows there. It never contains the value.'),
})
export type SchemaFault = Static<typeof SchemaFault>

const parked = {
  parked_id: uuid(),
  msg_id: uuid(
    'The msg_id of the response to the request. If the request had matching records, they are this message.',
  ),
  record_index: count('Its index in the request.'),
  received_ts: timestamp('The time at which the request was received.'),
  parked_ts: timestamp('The time at which it was parked.'),
  reason: Type.Enum([...pipeParkedReasons]),
  state: Type.Enum([...parkedStates], {
    description: '`replaying`: a replay is in progress or was interrupted. Replay it again to finish it.',
  }),
  schema_version: count('The version of the schema when it was parked.'),
  errors: Type.Array(SchemaFault, {
    maxItems: pipeParkedErrors,
    description: 'Its first errors, of the last check.',
  }),
  is_edited: Type.Boolean(),
  record_bytes: count(),
} as const

export const PipeParkedRecord = Type.Object(parked)
export type PipeParkedRecord = Static<typeof PipeParkedRecord>

export const PipeParkedList = Type.Object({
  parked: Type.Array(PipeParkedRecord, {
    maxItems: parkedPage.max,
    description: 'In the order of the requests, and of the records within a request.',
  }),
  count: count('The number of records that are parked at the pipe, on all pages.'),
  next: nullable(string('`after` of the next page; null: this is the last one.')),
})
export type PipeParkedList = Static<typeof PipeParkedList>

/** GET …/parked/{parked_id}. The record is its JSON text, so numbers keep all digits. */
export const PipeParkedDetail = Type.Object({
  ...parked,
  records: Type.Array(anyObject(), {
    minItems: 1,
    maxItems: 1,
    description: 'The record as it was sent, without enrichment, or as it was last edited.',
  }),
})
export type PipeParkedDetail = Static<typeof PipeParkedDetail>

const oneRecord = Type.Array(Type.Object({}, { additionalProperties: true }), {
  minItems: 1,
  maxItems: 1,
  description: 'The record that replaces the stored one. Its text is kept as sent.',
})

/** PATCH …/parked/{parked_id}. */
export const PipeParkedEdit = Type.Object({ records: oneRecord }, closed)
export type PipeParkedEdit = Static<typeof PipeParkedEdit>

const force = Type.Optional(
  Type.Boolean({ default: false, description: 'Accept records that do not match the schema.' }),
)

/** POST …/parked/{parked_id}/replay. */
export const PipeParkedReplayRequest = Type.Object({ records: Type.Optional(oneRecord), force }, closed)
export type PipeParkedReplayRequest = Static<typeof PipeParkedReplayRequest>

export const PipeParkedReplay = Type.Object({
  parked_id: uuid(),
  msg_id: uuid('The message that the record is now.'),
})
export type PipeParkedReplay = Static<typeof PipeParkedReplay>

const selection = {
  ids: Type.Optional(
    Type.Array(uuid(), {
      minItems: 1,
      maxItems: parkedIdsAtOnce,
      description: 'The response does not count ids that are not parked here.',
    }),
  ),
  all: Type.Optional(Type.Literal(true)),
  error_path: Type.Optional(
    Type.String({
      maxLength: errorPathCharacters,
      description: 'Only records whose first error has this path.',
    }),
  ),
} as const

/** POST …/parked/discard: either `ids` or `all`. */
export const PipeParkedSelection = Type.Object(selection, closed)
export type PipeParkedSelection = Static<typeof PipeParkedSelection>

/** POST …/parked/replay: either `ids` or `all`. */
export const PipeParkedReplaySelection = Type.Object({ ...selection, force }, closed)
export type PipeParkedReplaySelection = Static<typeof PipeParkedReplaySelection>

export const PipeParkedReplayed = Type.Object({
  replayed: count('The number of records that are stored in the pipe now.'),
  mismatched: count('The number of records that still do not match the schema, and stay parked.'),
})
export type PipeParkedReplayed = Static<typeof PipeParkedReplayed>

export const pipeParkedParameters = [
  query('limit', pageSize(parkedPage), 'The number of parked records in one response.'),
  query('after', Type.String({ pattern: pipeParkedNextPattern }), 'The `next` of the previous page.'),
  query(
    'error_path',
    Type.String({ maxLength: errorPathCharacters }),
    'Only records whose first error has this path.',
  ),
] as const
