/** The schema of a pipe: its versions and types; proposals from records, and comparisons of records with a schema. */
import { validationError } from '../../contract/errors.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { jsonPointer, verifySchema } from '../../contract/record-schema.ts'
import type { SchemaCheckResult } from '../../contract/schema-check.ts'
import { type SchemaProposal, sampledRecords } from '../../contract/schema-proposal.ts'
import { typesOfSchema } from '../../contract/schema-types.ts'
import { type FieldErrors, throwIfErrors } from '../../contract/validate.ts'
import { isoTime } from '../../delivery/lane-status.ts'
import type { RecordsRead, RecordsToRead } from '../../observe/history/history.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe } from './lookup.ts'
import { sampleRecords } from './record-texts.ts'
import { enrichedKeys } from './table-inference.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'history'>

export function schemaUseCases({ metadata, history }: Deps) {
  return {
    async listSchemaVersions({ principal: { workspaceId }, path }: Call<'listSchemaVersions'>) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      return { versions: await metadata.schemaVersions({ workspaceId, pipeId: pipe_id }) }
    },

    async getSchemaTypes({ principal: { workspaceId }, path }: Call<'getSchemaTypes'>) {
      const { pipe_schema, pipe_name } = await requirePipe(metadata, workspaceId, path)
      return typesOfSchema(pipe_schema ?? {}, pipe_name)
    },

    async inferSchema({
      principal: { workspaceId },
      path,
      body,
    }: Call<'inferSchema'>): Promise<SchemaProposal> {
      const pipe = await requirePipe(metadata, workspaceId, path)
      const { enums, formats, minimums, additional_properties } = body
      const { schema, notes, ...read } = await history.inferSchema({
        ...recordsToRead(pipe, body),
        ignoredKeys: body.sample === undefined ? addedKeys(pipe) : [],
        options: {
          ...(enums === undefined ? {} : { enums }),
          ...(formats === undefined ? {} : { formats }),
          ...(minimums === undefined ? {} : { minimums }),
          ...(additional_properties === undefined ? {} : { additionalProperties: additional_properties }),
        },
      })
      return { ...shownRead(read, body), schema, notes }
    },

    async checkSchema({
      principal: { workspaceId },
      path,
      body,
    }: Call<'checkSchema'>): Promise<SchemaCheckResult> {
      const pipe = await requirePipe(metadata, workspaceId, path)
      const schema = body.schema ?? pipe.pipe_schema
      if (schema === null) throw validationError({ schema: 'is required: the pipe has none' })
      if (body.schema !== undefined) throwIfErrors(await faultsOf(schema))
      const { mismatching, errors, mismatches, ...read } = await history.checkSchema({
        ...recordsToRead(pipe, body),
        ignoredKeys: body.sample === undefined ? addedKeys(pipe) : [],
        schema,
      })
      return {
        ...shownRead(read, body),
        mismatching,
        errors,
        mismatches: mismatches.map(({ msgId, receivedMs, index, errors }) => ({
          msg_id: msgId,
          record_index: index,
          received_ts: receivedMs === null ? null : isoTime(receivedMs),
          errors: [...errors],
        })),
      }
    },
  }
}

/** Patterns are verified by the engine that runs them. It is loaded with the first schema. */
async function faultsOf(schema: object): Promise<FieldErrors> {
  const { patternVerifier } = await import('../../ingest/schema/linear-pattern.ts')
  const errors: FieldErrors = Object.create(null)
  for (const { path, message } of verifySchema(schema, patternVerifier()))
    errors[['schema', ...path].join('.')] ??= `${jsonPointer(path)} ${message}`.trim()
  return errors
}

interface RecordSelection {
  records?: number
  sample?: string
}

function recordsToRead({ pipe_id: pipeId }: Pipe, { records, sample }: RecordSelection): RecordsToRead {
  if (sample === undefined) return { pipeId, sample: null, maxRecords: records ?? sampledRecords.default }
  return { pipeId, sample: sampleRecords(sample), maxRecords: records ?? sampledRecords.max }
}

function shownRead({ records, oldestMs, endedBy }: RecordsRead, { sample }: RecordSelection) {
  return {
    source: sample === undefined ? 'pipe' : 'sample',
    records_seen: records,
    oldest_ts: oldestMs === null ? null : isoTime(oldestMs),
    ended_by: endedBy,
  } as const
}

/** A schema is checked before the pipe adds keys to a record, but stored records have these keys. */
function addedKeys(pipe: Pipe): string[] {
  return [...enrichedKeys(pipe).map(({ key }) => key), pipe.pipe_schema_tag_field]
}
