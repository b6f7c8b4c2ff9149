/** The webhooks that were rejected, per pipe, hour and reason. They belong to the hourly roll-ups of `usage.ts`. */
import { sql } from 'kysely'
import { isHookRefusal, type RejectedHooks } from '../contract/source-words.ts'
import { normaliseId, type PipeRef } from './tables.ts'
import type { Connection } from './transactions.ts'

interface Counted {
  pipeId: string
  /** Start of the UTC hour, ms. */
  hourMs: number
  rejectedHooks?: RejectedHooks
}

export async function rejectedHooksOf(
  db: Connection,
  { workspaceId, pipeId }: PipeRef,
  fromMs: number,
  toMs: number,
): Promise<RejectedHooks> {
  const found = await hooksByPipe(db, normaliseId(workspaceId), { fromMs, toMs, pipeId })
  return found.get(normaliseId(pipeId)) ?? {}
}

/** Counts of a deleted pipe are dropped. */
export async function addHooks(
  trx: Connection,
  { pipeId, hourMs, rejectedHooks = {} }: Counted,
): Promise<void> {
  for (const [reason, requests] of Object.entries(rejectedHooks)) {
    if (requests === 0) continue
    await sql`
      INSERT INTO rejected_hooks (pipe_id, hour_ms, reason, requests)
      SELECT pipe_id, CAST(${hourMs} AS bigint), CAST(${reason} AS text), CAST(${requests} AS bigint)
      FROM pipes WHERE pipe_id = ${normaliseId(pipeId)}
      ON CONFLICT (pipe_id, hour_ms, reason) DO UPDATE SET
        requests = rejected_hooks.requests + excluded.requests`.execute(trx)
  }
}

/** Returns the rejected webhooks of each pipe of the workspace that has any, in whole hours. */
export async function hooksByPipe(
  db: Connection,
  workspaceId: string,
  { fromMs, toMs, pipeId }: { fromMs: number; toMs: number | null; pipeId?: string },
): Promise<Map<string, RejectedHooks>> {
  let query = db
    .selectFrom('pipes')
    .innerJoin('rejected_hooks as hook', 'hook.pipe_id', 'pipes.pipe_id')
    .select(['pipes.pipe_id', 'hook.reason'])
    .select((eb) => eb.fn.sum<number>('hook.requests').as('requests'))
    .where('pipes.workspace_id', '=', workspaceId)
    .where('hook.hour_ms', '>=', fromMs)
    .groupBy(['pipes.pipe_id', 'hook.reason'])
  if (toMs !== null) query = query.where('hook.hour_ms', '<=', toMs)
  if (pipeId !== undefined) query = query.where('pipes.pipe_id', '=', normaliseId(pipeId))
  const found = new Map<string, RejectedHooks>()
  for (const { pipe_id, reason, requests } of await query.execute()) {
    const hooks = found.get(pipe_id) ?? {}
    found.set(pipe_id, hooks)
    if (isHookRefusal(reason)) hooks[reason] = requests
  }
  return found
}
