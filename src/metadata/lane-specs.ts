/** Loads all lanes with everything that a driver needs, for delivery at start and after each change. */
import { defaultConcurrency } from '../contract/delivery-settings.ts'
import { type DestinationType, resolveConfig } from '../contract/destination.ts'
import { wordsOf } from '../contract/destination-words.ts'
import type { PipeLimits } from '../contract/pipe.ts'
import { slices } from '../platform/slices.ts'
import { columnsOf } from './columns.ts'
import { ownFlush } from './delivery-settings.ts'
import { readable } from './destination-config.ts'
import type { FlushLimits, LaneSource, LaneSpec, PipeLanes } from './lane-state.ts'
import { loadLimits } from './limits.ts'
import type { Sealer } from './secrets.ts'
import { normaliseId } from './tables.ts'
import { type Connection, inSnapshot, inWriteTransaction } from './transactions.ts'

/** Limits the parameters of one statement. */
const destinationsAtOnce = 500

export function laneSource(db: Connection, sealer: Sealer): LaneSource {
  return {
    allPipes: () => inSnapshot(db, (trx) => loadLanes(trx, sealer, null)),

    async pipe(pipeId) {
      const [pipe] = await inSnapshot(db, (trx) => loadLanes(trx, sealer, normaliseId(pipeId)))
      return pipe ?? null
    },

    async pipesOf(destinationIds) {
      const found = new Map<string, string>()
      for (const ids of slices(destinationIds.map(normaliseId), destinationsAtOnce)) {
        const rows = await db
          .selectFrom('destinations')
          .select(['destination_id', 'pipe_id'])
          .where('destination_id', 'in', ids)
          .execute()
        for (const { destination_id, pipe_id } of rows) found.set(destination_id, pipe_id)
      }
      return found
    },

    async deletedPipes(beforeMs = Number.MAX_SAFE_INTEGER) {
      const rows = await db
        .selectFrom('deleted_pipes')
        .select('pipe_id')
        .where('deleted_ms', '<', beforeMs)
        .orderBy('pipe_id')
        .execute()
      return rows.map((row) => row.pipe_id)
    },

    async forgetDeletedPipes(pipeIds) {
      await inWriteTransaction(db, async (trx) => {
        for (const pipeId of pipeIds) {
          await trx.deleteFrom('deleted_pipes').where('pipe_id', '=', normaliseId(pipeId)).execute()
        }
      })
    },
  }
}

/** Runs a fixed number of queries for any number of pipes. `pipeId` null: all. */
async function loadLanes(trx: Connection, sealer: Sealer, pipeId: string | null): Promise<PipeLanes[]> {
  let pipeQuery = trx
    .selectFrom('pipes')
    .select(['pipe_id', 'workspace_id', 'pipe_name', 'pipe_ingest_ts_field', 'pipe_retention_hours'])
    .orderBy('workspace_id')
    .orderBy('creation_order')
  let destinationQuery = trx
    .selectFrom('destinations')
    .selectAll()
    .orderBy('creation_order')
    .orderBy('destination_id')
  if (pipeId !== null) {
    pipeQuery = pipeQuery.where('pipe_id', '=', pipeId)
    destinationQuery = destinationQuery.where('pipe_id', '=', pipeId)
  }
  const pipes = await pipeQuery.execute()
  const destinations = await destinationQuery.execute()
  const limits = await loadLimits(trx, pipeId)
  const columns = await columnsOf(trx, pipeId === null ? null : destinations)
  const added = await addedColumns(trx)
  const result = new Map<string, { pipe: (typeof pipes)[number]; lanes: LaneSpec[] }>()
  for (const pipe of pipes) result.set(pipe.pipe_id, { pipe, lanes: [] })
  for (const row of destinations) {
    const owner = result.get(row.pipe_id)
    if (owner === undefined) continue
    const { config, transform, unreadable } = readable(sealer, row)
    const spec = {
      destinationId: row.destination_id,
      pipeId: row.pipe_id,
      pipeName: owner.pipe.pipe_name,
      workspaceId: owner.pipe.workspace_id,
      ...resolveConfig(row.destination_type, config),
      ...(unreadable.length > 0 ? { unreadableSecrets: unreadable } : {}),
      columns: columns.get(row.destination_id) ?? [],
      transform,
      timestampField: owner.pipe.pipe_ingest_ts_field,
      status: row.destination_status,
      maxRetrySeconds: row.destination_max_retry_seconds,
      name: row.destination_name,
      flush: ownFlush(row) ?? flushLimits(limits.get(row.pipe_id), row.destination_type),
      rate:
        row.rate_requests_per_second === null ? null : { requestsPerSecond: row.rate_requests_per_second },
      concurrency: row.concurrency ?? defaultConcurrency,
      onPermanentError: row.on_permanent_error,
      pinGeneration: row.tls_pin_generation,
      ...(added.has(row.destination_id) ? { addedColumns: added.get(row.destination_id)! } : {}),
    }
    // The spec holds secrets, so its fingerprint is keyed: a revision can be logged.
    owner.lanes.push({ ...spec, revision: sealer.fingerprint(JSON.stringify(spec)).slice(0, 32) })
  }
  return pipes.map((pipe) => ({
    pipeId: pipe.pipe_id,
    workspaceId: pipe.workspace_id,
    retentionHours: pipe.pipe_retention_hours,
    lanes: result.get(pipe.pipe_id)?.lanes ?? [],
  }))
}

/** The number of columns that `auto_add_columns` has added, by destination. There are few. */
async function addedColumns(trx: Connection): Promise<Map<string, number>> {
  const rows = await trx
    .selectFrom('added_columns')
    .select(({ fn }) => ['destination_id', fn.countAll<number>().as('columns')])
    .where('is_added', '=', 1)
    .groupBy('destination_id')
    .execute()
  return new Map(rows.map(({ destination_id, columns }) => [destination_id, Number(columns)]))
}

/**
 * The flush plan of a destination without one of its own: its pipe's, or else the default of its type
 * (docs/dev/contract.md#destinations).
 */
function flushLimits(limits: PipeLimits | undefined, type: DestinationType): FlushLimits {
  if (limits === undefined) return wordsOf(type).defaultFlush
  return {
    maxRecords: limits.pl_delivery_max_records_per_flush,
    maxBytes: limits.pl_delivery_max_bytes_per_flush,
    maxSeconds: limits.pl_delivery_max_seconds_per_flush,
  }
}
