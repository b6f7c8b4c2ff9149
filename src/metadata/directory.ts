/**
 * The source of the directory: the pipes as ingest needs them, and the hashes of active keys, across all workspaces.
 */
import { requiredFields } from '../contract/column-rules.ts'
import type { ColumnMapping } from '../contract/destination.ts'
import { destinationTypes, wordsOf } from '../contract/destination-words.ts'
import { rightsOf } from './api-keys.ts'
import { columnsOf } from './columns.ts'
import type { DirectoryKey, DirectoryPipe, DirectorySource } from './directory-source.ts'
import { loadLimits } from './limits.ts'
import { openedSource } from './pipe-source.ts'
import { decodePipe } from './pipes.ts'
import type { Sealer } from './secrets.ts'
import { type ApiKeyRow, normaliseId } from './tables.ts'
import { type Connection, inSnapshot } from './transactions.ts'

export function directorySource(db: Connection, sealer: Sealer): DirectorySource {
  return {
    allPipes: () => inSnapshot(db, (trx) => loadPipes(trx, sealer, null)),

    async pipe(pipeId) {
      const [pipe] = await inSnapshot(db, (trx) => loadPipes(trx, sealer, normaliseId(pipeId)))
      return pipe ?? null
    },

    async allKeys() {
      const rows = await keyRows(db).where('api_key_status', '=', 'active').execute()
      return new Map(rows.map((row) => [row.api_key_hash, directoryKey(row)]))
    },

    async key(hash) {
      const row = await keyRows(db)
        .where('api_key_hash', '=', hash)
        .where('api_key_status', '=', 'active')
        .executeTakeFirst()
      return row ? directoryKey(row) : null
    },

    async keyById(apiKeyId) {
      const row = await keyRows(db).where('api_key_id', '=', normaliseId(apiKeyId)).executeTakeFirst()
      if (row === undefined) return null
      const isActive = row.api_key_status === 'active'
      return { ...directoryKey(row), hash: row.api_key_hash, isActive }
    },
  }
}

function keyRows(db: Connection) {
  return db.selectFrom('api_keys').selectAll()
}

function directoryKey(row: ApiKeyRow): DirectoryKey {
  return { apiKeyId: row.api_key_id, workspaceId: row.workspace_id, ...rightsOf(row) }
}

/** Runs a fixed number of queries for any number of pipes. `pipeId` null: all. */
async function loadPipes(trx: Connection, sealer: Sealer, pipeId: string | null): Promise<DirectoryPipe[]> {
  let pipeQuery = trx.selectFrom('pipes').selectAll().orderBy('workspace_id').orderBy('creation_order')
  if (pipeId !== null) pipeQuery = pipeQuery.where('pipe_id', '=', pipeId)
  const pipes = await pipeQuery.execute()
  const limits = await loadLimits(trx, pipeId)
  const origins = await loadOrigins(trx, pipeId)
  const columns = await activeColumns(trx, pipeId)
  return pipes.map((row) => ({
    workspaceId: row.workspace_id,
    pipe: decodePipe(row),
    limits: limits.get(row.pipe_id) ?? null,
    allowedOrigins: origins.get(row.pipe_id) ?? new Set(),
    source: openedSource(sealer, row.pipe_id, row.pipe_source),
    requiredFields: requiredFields(columns.get(row.pipe_id) ?? [], row.pipe_ingest_ts_field),
  }))
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

/**
 * Returns, by pipe, the columns of its active databases and object stores, in creation order. Destinations with a
 * transform are left out: the transform may produce the source fields, or filter out records that lack them.
 */
async function activeColumns(trx: Connection, pipeId: string | null): Promise<Map<string, ColumnMapping[]>> {
  let query = trx
    .selectFrom('destinations')
    .select(['destination_id', 'pipe_id'])
    .where(
      'destination_type',
      'in',
      destinationTypes.filter((type) => wordsOf(type).hasColumns),
    )
    .where('destination_status', '=', 'active')
    .where('transform', 'is', null)
    .orderBy('creation_order')
    .orderBy('destination_id')
  if (pipeId !== null) query = query.where('pipe_id', '=', pipeId)
  const destinations = await query.execute()
  const columns = await columnsOf(trx, pipeId === null ? null : destinations)
  const byPipe = new Map<string, ColumnMapping[]>()
  for (const row of destinations) {
    const list = byPipe.get(row.pipe_id) ?? []
    byPipe.set(row.pipe_id, list)
    list.push(...(columns.get(row.destination_id) ?? []))
  }
  return byPipe
}
