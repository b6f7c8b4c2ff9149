/** The schema of a pipe's records in requests and responses (docs/dev/contract.md#schemas). */
import Type, { type Static } from 'typebox'
import { AuditActor } from './audit.ts'
import { jsonPointer, type PatternFault, type RecordSchema, verifySchema } from './record-schema.ts'
import { count, nullable, positive, timestamp } from './schema-parts.ts'
import {
  type MismatchAction,
  type Mismatches as MismatchCounts,
  mismatchActions,
  mismatchResults,
} from './schema-words.ts'
import type { FieldErrors } from './validate.ts'

const jsonSchema = (description: string) =>
  Type.Unsafe<RecordSchema>(Type.Record(Type.String(), Type.Unknown(), { description }))

export const PipeSchema = nullable(
  jsonSchema(
    'The schema of each record as the client sends it: a subset of JSON Schema 2020-12. null: every JSON object is accepted.',
  ),
)
export const PipeSchemaOnMismatch = Type.Enum([...mismatchActions], {
  description:
    'The treatment of records that do not match the schema. reject: the request is rejected with schema_mismatch. park: these records are parked, the others accepted. tag: the record is accepted with its errors under the key pipe_schema_tag_field.',
})
export const PipeSchemaTagField = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'JSON key of the errors in a tagged record',
})

/** In the usage of a pipe. */
export const Mismatches = Type.Unsafe<MismatchCounts>(
  Type.Object(Object.fromEntries(mismatchResults.map((result) => [result, Type.Optional(count())])), {
    description: 'Records that did not match the schema, by result. A result without any is left out.',
  }),
)

export const SchemaVersion = Type.Object({
  version: positive('The versions of a pipe are numbered from 1.'),
  changed_ts: timestamp(),
  changed_by: AuditActor,
  pipe_schema: PipeSchema,
  pipe_schema_on_mismatch: PipeSchemaOnMismatch,
})
export type SchemaVersion = Static<typeof SchemaVersion>

/** Newest first. */
export const SchemaVersions = Type.Object({ versions: Type.Array(SchemaVersion) })
export type SchemaVersions = Static<typeof SchemaVersions>

/** The fields of a request that set a schema. */
interface SchemaFields {
  pipe_schema?: RecordSchema | null
  pipe_schema_on_mismatch?: MismatchAction
}

/** The errors of `validation_error` for a schema. Each names the path of the keyword. */
export function schemaErrors(
  { pipe_schema: schema }: SchemaFields,
  patternFault?: PatternFault,
): FieldErrors {
  if (schema == null) return {}
  const errors: FieldErrors = Object.create(null)
  for (const { path, message } of verifySchema(schema, patternFault)) {
    const name = ['pipe_schema', ...path].join('.')
    errors[name] ??= path.length === 0 ? message : `${jsonPointer(path)} ${message}`
  }
  return errors
}
