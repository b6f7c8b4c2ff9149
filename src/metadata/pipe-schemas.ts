/** The schemas of pipes: their versions, and the space that they take in a workspace. */
import { sql } from 'kysely'
import type { AuditEntry } from '../contract/audit.ts'
import { ApiError } from '../contract/errors.ts'
import type { Pipe } from '../contract/pipe.ts'
import type { SchemaVersion } from '../contract/pipe-schema.ts'
import { schemaLimits } from '../contract/schema-words.ts'
import { nextNumber } from './rows.ts'
import { isoTime, normaliseId, type PipeRef, type PipeRow } from './tables.ts'
import type { Connection } from './transactions.ts'

type SchemaColumns = Pick<PipeRow, 'pipe_schema' | 'pipe_schema_on_mismatch' | 'pipe_schema_tag_field'>
type SchemaFields = Pick<Pipe, keyof SchemaColumns>

export function schemaColumns(fields: Partial<SchemaFields>): Partial<SchemaColumns> {
  const { pipe_schema, pipe_schema_on_mismatch, pipe_schema_tag_field } = fields
  return {
    ...(pipe_schema === undefined ? {} : { pipe_schema: pipe_schema && JSON.stringify(pipe_schema) }),
    ...(pipe_schema_on_mismatch === undefined ? {} : { pipe_schema_on_mismatch }),
    ...(pipe_schema_tag_field === undefined ? {} : { pipe_schema_tag_field }),
  }
}

export function decodeSchema(row: SchemaColumns): SchemaFields {
  const { pipe_schema, pipe_schema_on_mismatch, pipe_schema_tag_field } = row
  return {
    pipe_schema: pipe_schema && JSON.parse(pipe_schema),
    pipe_schema_on_mismatch,
    pipe_schema_tag_field,
  }
}

/**
 * Limits the schemas of a workspace, in the transaction that adds `added`: every directory holds them, and lists of
 * pipes show them. Throws `workspace_full`.
 */
export async function requireSchemaRoom(
  trx: Connection,
  workspaceId: string,
  pipeId: string | null,
  added: string | null | undefined,
): Promise<void> {
  if (added == null) return
  let query = trx
    .selectFrom('pipes')
    .select(sql<number | null>`sum(octet_length(pipe_schema))`.as('bytes'))
    .where('workspace_id', '=', workspaceId)
  if (pipeId !== null) query = query.where('pipe_id', '!=', pipeId)
  const { bytes } = await query.executeTakeFirstOrThrow()
  const most = schemaLimits.workspaceBytes
  if (Number(bytes ?? 0) + Buffer.byteLength(added) <= most) return
  throw new ApiError('workspace_full', {
    message: `The schemas of this workspace can have at most ${most} bytes together: remove or shorten one.`,
    details: { limit: 'schema_bytes_per_workspace', limit_value: most },
  })
}

/** The version of a change. `entry` null: nothing visible was changed. */
export async function addSchemaVersion(
  trx: Connection,
  row: Pick<PipeRow, 'pipe_id'> & SchemaColumns,
  entry: AuditEntry | null,
): Promise<void> {
  const changed = entry?.after
  if (
    !changed ||
    !('pipe_schema' in changed || 'pipe_schema_on_mismatch' in changed || 'left_out' in changed)
  )
    return
  const { pipe_id, pipe_schema, pipe_schema_on_mismatch } = row
  const newest = await trx
    .selectFrom('schema_versions')
    .select(['pipe_schema', 'pipe_schema_on_mismatch'])
    .where('pipe_id', '=', pipe_id)
    .orderBy('version', 'desc')
    .executeTakeFirst()
  const isFirst = newest === undefined && pipe_schema === null
  const isSame =
    newest?.pipe_schema === pipe_schema && newest.pipe_schema_on_mismatch === pipe_schema_on_mismatch
  if (isFirst || isSame) return
  const version = await nextNumber(trx, 'schema_versions', 'version', { pipe_id })
  await trx
    .insertInto('schema_versions')
    .values({
      ...{ pipe_id, version, pipe_schema, pipe_schema_on_mismatch },
      changed_ms: Date.parse(entry.audit_ts),
      actor_kind: entry.actor.kind,
      actor_id: entry.actor.id,
      actor_name: entry.actor.name,
    })
    .execute()
  await trx
    .deleteFrom('schema_versions')
    .where('pipe_id', '=', pipe_id)
    .where('version', '<=', version - schemaLimits.versions)
    .execute()
}

/** `Metadata['schemaVersions']` */
export function schemaVersions(db: Connection): (pipe: PipeRef) => Promise<SchemaVersion[]> {
  return async ({ workspaceId, pipeId }) => {
    const rows = await db
      .selectFrom('schema_versions')
      .innerJoin('pipes', 'pipes.pipe_id', 'schema_versions.pipe_id')
      .selectAll('schema_versions')
      .where('pipes.workspace_id', '=', normaliseId(workspaceId))
      .where('pipes.pipe_id', '=', normaliseId(pipeId))
      .orderBy('version', 'desc')
      .execute()
    return rows.map((row) => ({
      version: row.version,
      changed_ts: isoTime(row.changed_ms),
      changed_by: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
      pipe_schema: row.pipe_schema && JSON.parse(row.pipe_schema),
      pipe_schema_on_mismatch: row.pipe_schema_on_mismatch,
    }))
  }
}
