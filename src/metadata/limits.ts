/** Per-pipe limits: at most one row per pipe. */
import type { PipeLimits } from '../contract/pipe.ts'
import type { Audited } from './audit.ts'
import { requirePipe } from './pipes.ts'
import { type LimitsRow, normaliseId, type PipeRef } from './tables.ts'
import type { Connection } from './transactions.ts'

export interface LimitStore {
  get(pipe: PipeRef): Promise<PipeLimits | null>
  /** Throws `pipe_not_found`. */
  put(pipe: PipeRef, limits: PipeLimits): Promise<PipeLimits>
  /** False: the pipe has no limits, or does not exist. */
  delete(pipe: PipeRef): Promise<boolean>
}

export function limits(db: Connection, inAudited: Audited): LimitStore {
  return {
    async get({ workspaceId, pipeId }) {
      const row = await db
        .selectFrom('pipe_limits')
        .innerJoin('pipes', 'pipes.pipe_id', 'pipe_limits.pipe_id')
        .selectAll('pipe_limits')
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .where('pipes.pipe_id', '=', normaliseId(pipeId))
        .executeTakeFirst()
      return row ? decodeLimits(row) : null
    },

    put: (pipe, given) =>
      inAudited(async (trx, record) => {
        const row: LimitsRow = {
          pipe_id: await requirePipe(trx, pipe),
          pl_ingest_max_records_per_request: given.pl_ingest_max_records_per_request,
          pl_ingest_max_records_per_second: given.pl_ingest_max_records_per_second,
          pl_ingest_max_records_per_day: given.pl_ingest_max_records_per_day,
          pl_ingest_max_bytes_per_day: given.pl_ingest_max_bytes_per_day ?? null,
          pl_delivery_max_records_per_flush: given.pl_delivery_max_records_per_flush,
          pl_delivery_max_bytes_per_flush: given.pl_delivery_max_bytes_per_flush,
          pl_delivery_max_seconds_per_flush: given.pl_delivery_max_seconds_per_flush,
        }
        const { pipe_id: _, ...values } = row
        const stored = await rowOf(trx, row.pipe_id)
        await trx
          .insertInto('pipe_limits')
          .values(row)
          .onConflict((conflict) => conflict.column('pipe_id').doUpdateSet(values))
          .execute()
        const after = decodeLimits(row)
        const before = stored === undefined ? null : decodeLimits(stored)
        await record({ ...of(pipe.workspaceId, row.pipe_id), operation: 'putLimits', before, after })
        return after
      }),

    delete: ({ workspaceId, pipeId }) =>
      inAudited(async (trx, record) => {
        const pipe = await trx
          .selectFrom('pipes')
          .select('pipe_id')
          .where('workspace_id', '=', normaliseId(workspaceId))
          .where('pipe_id', '=', normaliseId(pipeId))
          .executeTakeFirst()
        const stored = pipe && (await rowOf(trx, pipe.pipe_id))
        if (stored === undefined) return false
        await trx.deleteFrom('pipe_limits').where('pipe_id', '=', stored.pipe_id).execute()
        // Records accepted without limits were not reserved. With new limits the sums start again from the pipe's
        // usage.
        await trx.deleteFrom('quota_days').where('pipe_id', '=', stored.pipe_id).execute()
        const removed = { operation: 'deleteLimits', before: decodeLimits(stored), after: null }
        await record({ ...of(workspaceId, stored.pipe_id), ...removed })
        return true
      }),
  }
}

const of = (workspaceId: string, pipeId: string) => ({ workspaceId, resourceId: pipeId, pipeId })

function rowOf(trx: Connection, pipeId: string): Promise<LimitsRow | undefined> {
  return trx.selectFrom('pipe_limits').selectAll().where('pipe_id', '=', pipeId).executeTakeFirst()
}

/** Returns limits by pipe id. Pipes without limits are left out. `pipeId` null: all pipes. */
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
