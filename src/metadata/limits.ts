/** Per-pipe limits: at most one row per pipe. */
import type { PipeLimits } from '../contract/pipe.ts'
import { type Connection, inWriteTransaction, type LimitsRow, normaliseId } from './database.ts'
import { requirePipe } from './pipes.ts'
import type { Metadata } from './store.ts'

export function limits(db: Connection): Metadata['limits'] {
  return {
    async get(workspaceId, pipeId) {
      const row = await db
        .selectFrom('pipe_limits')
        .innerJoin('pipes', 'pipes.pipe_id', 'pipe_limits.pipe_id')
        .selectAll('pipe_limits')
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .where('pipes.pipe_id', '=', normaliseId(pipeId))
        .executeTakeFirst()
      return row ? decodeLimits(row) : null
    },

    put: (workspaceId, pipeId, given) =>
      inWriteTransaction(db, async (trx) => {
        const row: LimitsRow = {
          pipe_id: await requirePipe(trx, workspaceId, pipeId),
          pl_ingest_max_records_per_request: given.pl_ingest_max_records_per_request,
          pl_ingest_max_records_per_second: given.pl_ingest_max_records_per_second,
          pl_ingest_max_records_per_day: given.pl_ingest_max_records_per_day,
          pl_ingest_max_bytes_per_day: given.pl_ingest_max_bytes_per_day ?? null,
          pl_delivery_max_records_per_flush: given.pl_delivery_max_records_per_flush,
          pl_delivery_max_bytes_per_flush: given.pl_delivery_max_bytes_per_flush,
          pl_delivery_max_seconds_per_flush: given.pl_delivery_max_seconds_per_flush,
        }
        const { pipe_id: _, ...values } = row
        await trx
          .insertInto('pipe_limits')
          .values(row)
          .onConflict((conflict) => conflict.column('pipe_id').doUpdateSet(values))
          .execute()
        return decodeLimits(row)
      }),

    delete: (workspaceId, pipeId) =>
      inWriteTransaction(db, async (trx) => {
        const pipe = trx
          .selectFrom('pipes')
          .select('pipe_id')
          .where('workspace_id', '=', normaliseId(workspaceId))
          .where('pipe_id', '=', normaliseId(pipeId))
        const result = await trx.deleteFrom('pipe_limits').where('pipe_id', 'in', pipe).executeTakeFirst()
        return result.numDeletedRows > 0n
      }),
  }
}

/** By pipe id; a pipe without a row is left out. `pipeId` null: all. */
export async function loadLimits(trx: Connection, pipeId: string | null): Promise<Map<string, PipeLimits>> {
  let query = trx.selectFrom('pipe_limits').selectAll()
  if (pipeId !== null) query = query.where('pipe_id', '=', pipeId)
  return new Map((await query.execute()).map((row) => [row.pipe_id, decodeLimits(row)]))
}

function decodeLimits(row: LimitsRow): PipeLimits {
  return {
    pl_ingest_max_records_per_request: Number(row.pl_ingest_max_records_per_request),
    pl_ingest_max_records_per_second: Number(row.pl_ingest_max_records_per_second),
    pl_ingest_max_records_per_day: Number(row.pl_ingest_max_records_per_day),
    pl_ingest_max_bytes_per_day:
      row.pl_ingest_max_bytes_per_day === null ? null : Number(row.pl_ingest_max_bytes_per_day),
    pl_delivery_max_records_per_flush: Number(row.pl_delivery_max_records_per_flush),
    pl_delivery_max_bytes_per_flush: Number(row.pl_delivery_max_bytes_per_flush),
    pl_delivery_max_seconds_per_flush: Number(row.pl_delivery_max_seconds_per_flush),
  }
}
