/** Pipes. `requirePipe` checks for all repositories that a pipe belongs to a workspace. */

import { randomUUID } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import { geoFieldKeys, type Pipe } from '../contract/pipe.ts'
import type { Audited } from './audit.ts'
import { addSchemaVersion, decodeSchema, requireSchemaRoom, schemaColumns } from './pipe-schemas.ts'
import { changedSourceSecrets, type SourceChange, sealedSource, shownSource } from './pipe-source.ts'
import { requireFewDeleted, requireRoom, type WorkspaceQuotas } from './quotas.ts'
import { insertUnlessTaken, nextNumber } from './rows.ts'
import type { Sealer } from './secrets.ts'
import { isoTime, normaliseId, type PipeRef, type PipeRow, toFlag } from './tables.ts'
import { type Connection, type Decided, decided } from './transactions.ts'

/** A pipe whose source has its secrets in the clear. */
type OfPipe<T> = Omit<T, 'pipe_source'> & { pipe_source: SourceChange | null }
export type NewPipe = OfPipe<Omit<Pipe, 'pipe_id' | 'pipe_created_ts' | 'pipe_updated_ts'>>
/** Undefined: unchanged. */
export type PipeChange = Partial<OfPipe<Pipe>>

export interface PipeStore {
  list(workspaceId: string): Promise<Pipe[]>
  get(pipe: PipeRef): Promise<Pipe | null>
  /** Throws `duplicate_pipe_name` and `workspace_full`. */
  create(workspaceId: string, pipe: NewPipe): Promise<Pipe>
  /** Ignores id, name and times in the change. Null: no such pipe. Throws `workspace_full`. */
  update(pipe: PipeRef, change: Decided<Pipe, PipeChange>): Promise<Pipe | null>
  /** Deletes the pipe with its destinations, lanes, limits, origins and usage. False: no such pipe. */
  delete(pipe: PipeRef): Promise<boolean>
}

export function pipes(
  db: Connection,
  { sealer, now, quotas }: { sealer: Sealer; now(): number; quotas: WorkspaceQuotas },
  inAudited: Audited,
): PipeStore {
  return {
    async list(workspaceId) {
      const rows = await db
        .selectFrom('pipes')
        .selectAll()
        .where('workspace_id', '=', normaliseId(workspaceId))
        .orderBy('creation_order')
        .orderBy('pipe_id')
        .execute()
      return rows.map(decodePipe)
    },

    async get(pipe) {
      const row = await findRow(db, pipe)
      return row ? decodePipe(row) : null
    },

    create: (workspaceId, pipe) =>
      inAudited(async (trx, record) => {
        const row = newRow(sealer, normaliseId(workspaceId), pipe, now())
        await requirePipeRoom(trx, row, quotas)
        const creation_order = await nextNumber(trx, 'pipes', 'creation_order', {
          workspace_id: row.workspace_id,
        })
        if (!(await insertUnlessTaken(trx, 'pipes', { ...row, creation_order })))
          throw new ApiError('duplicate_pipe_name')
        const after = decodePipe(row)
        const done = { operation: 'createPipe', before: null, after }
        await addSchemaVersion(trx, row, await record({ ...of(workspaceId, after.pipe_id), ...done }))
        return after
      }),

    update: (pipe, change) =>
      inAudited(async (trx, record) => {
        const before = await findRow(trx, pipe)
        if (before === undefined) return null
        const values = changedColumns(sealer, before, decided(change, decodePipe(before)), now())
        if (Object.keys(values).length === 0) return decodePipe(before)
        const updated = {
          ...values,
          // Always later than before, even if the clock stood still or went back: clients compare it to notice a
          // change.
          pipe_updated_ms: Math.max(now(), before.pipe_updated_ms + 1),
        }
        await requireSchemaRoom(trx, before.workspace_id, before.pipe_id, values.pipe_schema)
        await trx.updateTable('pipes').set(updated).where('pipe_id', '=', before.pipe_id).execute()
        const afterRow = { ...before, ...updated }
        const after = decodePipe(afterRow)
        const secrets = changedSourceSecrets(before.pipe_source, afterRow.pipe_source)
        const entry = await record({
          ...of(pipe.workspaceId, before.pipe_id),
          operation: 'updatePipe',
          before: decodePipe(before),
          after: { ...after, ...(secrets.length === 0 ? {} : { secrets_changed: secrets }) },
        })
        await addSchemaVersion(trx, afterRow, entry)
        return after
      }),

    delete: (pipe) =>
      inAudited(async (trx, record) => {
        const before = await findRow(trx, pipe)
        if (before === undefined) return false
        // The foreign keys' cascade deletes everything that belongs to the pipe, in the same statement.
        await trx
          .deleteFrom('pipes')
          .where('workspace_id', '=', before.workspace_id)
          .where('pipe_id', '=', before.pipe_id)
          .execute()
        // This row tells the buffer to drop the pipe's messages.
        const { pipe_id, workspace_id } = before
        await insertUnlessTaken(trx, 'deleted_pipes', { pipe_id, workspace_id, deleted_ms: now() })
        const removed = { operation: 'deletePipe', before: decodePipe(before), after: null }
        await record({ ...of(pipe.workspaceId, before.pipe_id), ...removed })
        return true
      }),
  }
}

async function requirePipeRoom(
  trx: Connection,
  row: Omit<PipeRow, 'creation_order'>,
  quotas: WorkspaceQuotas,
): Promise<void> {
  await requireRoom(trx, row.workspace_id, 'pipes', quotas)
  await requireFewDeleted(trx, row.workspace_id)
  await requireSchemaRoom(trx, row.workspace_id, null, row.pipe_schema)
}

const of = (workspaceId: string, pipeId: string) => ({ workspaceId, resourceId: pipeId, pipeId })

/** Returns the pipe's id as stored. Throws `pipe_not_found`. */
export async function requirePipe(db: Connection, pipe: PipeRef): Promise<string> {
  const row = await findRow(db, pipe)
  if (row === undefined) throw new ApiError('pipe_not_found')
  return row.pipe_id
}

async function findRow(db: Connection, { workspaceId, pipeId }: PipeRef): Promise<PipeRow | undefined> {
  return await db
    .selectFrom('pipes')
    .selectAll()
    .where('workspace_id', '=', normaliseId(workspaceId))
    .where('pipe_id', '=', normaliseId(pipeId))
    .executeTakeFirst()
}

function newRow(
  sealer: Sealer,
  workspaceId: string,
  pipe: NewPipe,
  nowMs: number,
): Omit<PipeRow, 'creation_order'> {
  const pipeId = randomUUID()
  return {
    pipe_id: pipeId,
    workspace_id: workspaceId,
    pipe_name: pipe.pipe_name,
    pipe_description: pipe.pipe_description,
    pipe_status: pipe.pipe_status,
    pipe_add_ingest_ts: toFlag(pipe.pipe_add_ingest_ts),
    pipe_add_ingest_ip: toFlag(pipe.pipe_add_ingest_ip),
    pipe_ingest_ts_field: pipe.pipe_ingest_ts_field,
    pipe_ingest_ip_field: pipe.pipe_ingest_ip_field,
    pipe_client_ip: pipe.pipe_client_ip,
    ...geoFieldsOf(pipe),
    pipe_api_key_required: toFlag(pipe.pipe_api_key_required),
    pipe_allow_any_browser_origin: toFlag(pipe.pipe_allow_any_browser_origin),
    pipe_source: pipe.pipe_source && sealedSource(sealer, pipe.pipe_source, { pipeId, stored: null, nowMs }),
    pipe_source_headers: JSON.stringify(pipe.pipe_source_headers),
    pipe_source_raw: toFlag(pipe.pipe_source_raw),
    pipe_retention_hours: pipe.pipe_retention_hours,
    pipe_schema: pipe.pipe_schema && JSON.stringify(pipe.pipe_schema),
    pipe_schema_on_mismatch: pipe.pipe_schema_on_mismatch,
    pipe_schema_tag_field: pipe.pipe_schema_tag_field,
    pipe_created_ms: nowMs,
    pipe_updated_ms: nowMs,
  }
}

const flagKeys = [
  'pipe_add_ingest_ts',
  'pipe_add_ingest_ip',
  'pipe_api_key_required',
  'pipe_allow_any_browser_origin',
  'pipe_source_raw',
] as const
const textKeys = ['pipe_description', 'pipe_ingest_ts_field', 'pipe_ingest_ip_field'] as const

/**
 * Id, name and times cannot be changed (docs/dev/contract.md#pipes). Keys that are undefined leave their column
 * unchanged.
 */
function changedColumns(
  sealer: Sealer,
  before: PipeRow,
  change: PipeChange,
  nowMs: number,
): Partial<PipeRow> {
  const columns: Partial<PipeRow> = schemaColumns(change)
  for (const key of flagKeys) if (change[key] !== undefined) columns[key] = toFlag(change[key])
  for (const key of textKeys) if (change[key] !== undefined) columns[key] = change[key]
  for (const key of geoFieldKeys) if (change[key] !== undefined) columns[key] = change[key]
  if (change.pipe_status !== undefined) columns.pipe_status = change.pipe_status
  if (change.pipe_retention_hours !== undefined) columns.pipe_retention_hours = change.pipe_retention_hours
  if (change.pipe_client_ip !== undefined) columns.pipe_client_ip = change.pipe_client_ip
  if (change.pipe_source_headers !== undefined)
    columns.pipe_source_headers = JSON.stringify(change.pipe_source_headers)
  const { pipe_source: source } = change
  const { pipe_id: pipeId, pipe_source: stored } = before
  if (source !== undefined)
    columns.pipe_source = source && sealedSource(sealer, source, { pipeId, stored, nowMs })
  return columns
}

function geoFieldsOf(
  from: Pick<Pipe, (typeof geoFieldKeys)[number]>,
): Pick<PipeRow, (typeof geoFieldKeys)[number]> {
  return {
    pipe_ingest_geo_country_field: from.pipe_ingest_geo_country_field,
    pipe_ingest_geo_region_field: from.pipe_ingest_geo_region_field,
    pipe_ingest_geo_city_field: from.pipe_ingest_geo_city_field,
    pipe_ingest_geo_postal_field: from.pipe_ingest_geo_postal_field,
    pipe_ingest_geo_latitude_field: from.pipe_ingest_geo_latitude_field,
    pipe_ingest_geo_longitude_field: from.pipe_ingest_geo_longitude_field,
    pipe_ingest_geo_accuracy_radius_field: from.pipe_ingest_geo_accuracy_radius_field,
  }
}

export function decodePipe(row: Omit<PipeRow, 'creation_order'>): Pipe {
  return {
    pipe_id: row.pipe_id,
    pipe_name: row.pipe_name,
    pipe_description: row.pipe_description,
    pipe_status: row.pipe_status,
    pipe_add_ingest_ts: row.pipe_add_ingest_ts === 1,
    pipe_add_ingest_ip: row.pipe_add_ingest_ip === 1,
    pipe_ingest_ts_field: row.pipe_ingest_ts_field,
    pipe_ingest_ip_field: row.pipe_ingest_ip_field,
    pipe_client_ip: row.pipe_client_ip,
    ...geoFieldsOf(row),
    pipe_api_key_required: row.pipe_api_key_required === 1,
    pipe_allow_any_browser_origin: row.pipe_allow_any_browser_origin === 1,
    pipe_retention_hours: row.pipe_retention_hours,
    pipe_source: shownSource(row.pipe_source),
    pipe_source_headers: JSON.parse(row.pipe_source_headers),
    pipe_source_raw: row.pipe_source_raw === 1,
    ...decodeSchema(row),
    pipe_created_ts: isoTime(row.pipe_created_ms),
    pipe_updated_ts: isoTime(row.pipe_updated_ms),
  }
}
