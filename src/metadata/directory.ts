/** What the directory is filled from: pipes as ingest sees them, and the hashes of active keys, of all workspaces. */
import type { ColumnMapping } from '../contract/destination.ts'
import type { DirectoryPipe, DirectorySource } from '../ingest/directory.ts'
import { allColumns, columnsOf } from './columns.ts'
import { loadLimits } from './limits.ts'
import { decodePipe } from './pipes.ts'
import { type Connection, idKey, snapshot } from './schema.ts'

export function directorySource(db: Connection): DirectorySource {
  return {
    allPipes: () => snapshot(db, (trx) => loadPipes(trx, null)),

    async pipe(pipeId) {
      const [pipe] = await snapshot(db, (trx) => loadPipes(trx, idKey(pipeId)))
      return pipe ?? null
    },

    async allKeys() {
      const rows = await db
        .selectFrom('api_keys')
        .select(['api_key_hash', 'api_key_id', 'workspace_id'])
        .where('api_key_status', '=', 'active')
        .execute()
      return new Map(
        rows.map((row) => [row.api_key_hash, { apiKeyId: row.api_key_id, workspaceId: row.workspace_id }]),
      )
    },

    async key(hash) {
      const row = await db
        .selectFrom('api_keys')
        .select(['api_key_id', 'workspace_id'])
        .where('api_key_hash', '=', hash)
        .where('api_key_status', '=', 'active')
        .executeTakeFirst()
      return row ? { apiKeyId: row.api_key_id, workspaceId: row.workspace_id } : null
    },
  }
}

/** A fixed number of queries however many pipes there are. `pipeId` null: all. */
async function loadPipes(trx: Connection, pipeId: string | null): Promise<DirectoryPipe[]> {
  let pipeQuery = trx.selectFrom('pipes').selectAll().orderBy('workspace_id').orderBy('creation_order')
  if (pipeId !== null) pipeQuery = pipeQuery.where('pipe_id', '=', pipeId)
  const pipes = await pipeQuery.execute()
  const limits = await loadLimits(trx, pipeId)
  const origins = await loadOrigins(trx, pipeId)
  const columns = await activeDatabaseColumns(trx, pipeId)
  return pipes.map((row) => ({
    workspaceId: row.workspace_id,
    pipe: decodePipe(row),
    limits: limits.get(row.pipe_id) ?? null,
    allowedOrigins: origins.get(row.pipe_id) ?? new Set(),
    requiredFields: requiredFields(columns.get(row.pipe_id) ?? [], row.pipe_ingest_ts_field),
  }))
}

/**
 * Top-level keys a record must have after enrichment (spec "Ingest"; contract "Delivery", column rules): where a value
 * of a column that may not be null, or of a dedupe_id column, comes from. Values that delivery makes itself (the time
 * of acceptance, a generated dedupe value) ask for no key. In the order of the columns, each once.
 */
export function requiredFields(columns: readonly ColumnMapping[], timestampField: string): string[] {
  const fields = new Set<string>()
  for (const column of columns) {
    const source = column.source_field ?? defaultSource(column, timestampField)
    const isKey = column.semantic_role === 'dedupe_id'
    if (source !== null && (isKey || !column.nullable)) fields.add(source)
  }
  return [...fields]
}

function defaultSource(column: ColumnMapping, timestampField: string): string | null {
  if (column.semantic_role === null) return column.column_name
  return column.semantic_role === 'record_ts' ? timestampField : null
}

async function loadOrigins(trx: Connection, pipeId: string | null): Promise<Map<string, Set<string>>> {
  let query = trx
    .selectFrom('pipe_allowed_origins')
    .select(['pipe_id', 'origin_key'])
    .orderBy('creation_order')
  if (pipeId !== null) query = query.where('pipe_id', '=', pipeId)
  const origins = new Map<string, Set<string>>()
  for (const row of await query.execute()) {
    const set = origins.get(row.pipe_id) ?? new Set()
    origins.set(row.pipe_id, set.add(row.origin_key))
  }
  return origins
}

/** By pipe: the columns of its active database destinations, in creation order. */
async function activeDatabaseColumns(
  trx: Connection,
  pipeId: string | null,
): Promise<Map<string, ColumnMapping[]>> {
  let query = trx
    .selectFrom('destinations')
    .select(['destination_id', 'pipe_id'])
    .where('destination_type', '=', 'destination_database')
    .where('destination_status', '=', 'active')
    .orderBy('creation_order')
    .orderBy('destination_id')
  if (pipeId !== null) query = query.where('pipe_id', '=', pipeId)
  const destinations = await query.execute()
  const columns =
    pipeId === null
      ? await allColumns(trx)
      : await columnsOf(
          trx,
          destinations.map((row) => row.destination_id),
        )
  const byPipe = new Map<string, ColumnMapping[]>()
  for (const row of destinations) {
    const list = byPipe.get(row.pipe_id) ?? []
    byPipe.set(row.pipe_id, list)
    list.push(...(columns.get(row.destination_id) ?? []))
  }
  return byPipe
}
