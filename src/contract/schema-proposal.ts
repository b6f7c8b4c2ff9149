/** POST …/schema/infer: proposes a schema from records. */
import Type, { type Static } from 'typebox'
import { resourceLimits } from './resource-limits.ts'
import { anyObject, closed, count, nullable, timestamp } from './schema-parts.ts'

const { inferredSampleCharacters, schemaSampleRecords, schemaSampleBytes, schemaSampleMs } = resourceLimits

export const sampledRecords = { default: 10_000, max: schemaSampleRecords } as const

/** The records of a request: the newest of the pipe, or a sample. */
export const recordSelection = {
  records: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: sampledRecords.max,
      default: sampledRecords.default,
      description: `The number of the newest records of the pipe to read. One request reads at most ${schemaSampleBytes / 1024 / 1024} MiB, for about ${schemaSampleMs / 1000} seconds.`,
    }),
  ),
  sample: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: inferredSampleCharacters,
      description: 'Records as NDJSON, one object per line. They are used instead of those of the pipe.',
    }),
  ),
}

/** The part of a response that says which records were read. */
export const readRecords = {
  source: Type.Enum(['pipe', 'sample']),
  records_seen: count('The records that were read.'),
  oldest_ts: nullable(
    timestamp('When the oldest of them was received. Null: there were none, or they are a sample.'),
  ),
  ended_by: nullable(
    Type.Enum(['records', 'bytes', 'time'], {
      description: 'The limit that ended the reading. Null: there were no more records.',
    }),
  ),
}

export const SchemaInferenceRequest = Type.Object(
  {
    ...recordSelection,
    enums: Type.Optional(
      Type.Boolean({ default: true, description: 'Propose `enum` for strings with few distinct values.' }),
    ),
    formats: Type.Optional(Type.Boolean({ default: true, description: 'Propose `format` for strings.' })),
    minimums: Type.Optional(
      Type.Boolean({ default: false, description: 'Propose `minimum: 0` where no number was negative.' }),
    ),
    additional_properties: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'false: the schema accepts no other keys than those that were seen.',
      }),
    ),
  },
  closed,
)
export type SchemaInferenceRequest = Static<typeof SchemaInferenceRequest>

export const SchemaProposal = Type.Object({
  ...readRecords,
  schema: anyObject('It accepts every record that was read. It is not stored.'),
  notes: Type.Array(Type.String(), { description: 'Where the schema is less strict than the records.' }),
})
export type SchemaProposal = Static<typeof SchemaProposal>
