/** Per-pipe limits: at most one row per pipe. */
import type { PipeLimits } from '../contract/pipe.ts'
import type { Audited } from './audit.ts'
import { requirePipe } from './pipes.ts'
import { normaliseId, type PipeRef } from './tables.ts'
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
      return row ? limitsIn(row) : null
    },

    put: (pipe, given) =>
      inAudited(async (trx, record) => {
        const pipeId = await requirePipe(trx, pipe)
        const after = limitsIn(given)
        const before = await limitsOf(trx, pipeId)
        await trx
          .insertInto('pipe_limits')
          .values({ pipe_id: pipeId, ...after })
          .onConflict((conflict) => conflict.column('pipe_id').doUpdateSet(after))
          .execute()
        await record({ ...of(pipe.workspaceId, pipeId), operation: 'putLimits', before, after })
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
        const before = pipe ? await limitsOf(trx, pipe.pipe_id) : null
        if (!pipe || before === null) return false
        await trx.deleteFrom('pipe_limits').where('pipe_id', '=', pipe.pipe_id).execute()
        // Records accepted without limits were not reserved. With new limits the sums start again from the pipe's
        // usage.
        await trx.deleteFrom('quota_days').where('pipe_id', '=', pipe.pipe_id).execute()
        await record({ ...of(workspaceId, pipe.pipe_id), operation: 'deleteLimits', before, after: null })
        return true
      }),
  }
}

const of = (workspaceId: string, pipeId: string) => ({ workspaceId, resourceId: pipeId, pipeId })

async function limitsOf(trx: Connection, pipeId: string): Promise<PipeLimits | null> {
  return (await loadLimits(trx, pipeId)).get(pipeId) ?? null
}

/** Returns limits by pipe id. Pipes without limits are left out. `pipeId` null: all pipes. */
export async function loadLimits(trx: Connection, pipeId: string | null): Promise<Map<string, PipeLimits>> {
  let query = trx.selectFrom('pipe_limits').selectAll()
  if (pipeId !== null) query = query.where('pipe_id', '=', pipeId)
  return new Map((await query.execute()).map((row) => [row.pipe_id, limitsIn(row)]))
}

/** Without other members, such as the id of a row. */
function limitsIn(given: PipeLimits): PipeLimits {
  return {
    pl_ingest_max_records_per_request: given.pl_ingest_max_records_per_request,
    pl_ingest_max_records_per_second: given.pl_ingest_max_records_per_second,
    pl_ingest_max_records_per_day: given.pl_ingest_max_records_per_day,
    pl_ingest_max_bytes_per_day: given.pl_ingest_max_bytes_per_day ?? null,
    pl_delivery_max_records_per_flush: given.pl_delivery_max_records_per_flush,
    pl_delivery_max_bytes_per_flush: given.pl_delivery_max_bytes_per_flush,
    pl_delivery_max_seconds_per_flush: given.pl_delivery_max_seconds_per_flush,
  }
}
