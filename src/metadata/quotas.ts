/**
 * Limits the pipes, API keys and so on of a workspace. They are counted in the transaction that adds one, so a race
 * cannot exceed the limit. If a setting is lowered, existing ones are kept.
 */
import { sql } from 'kysely'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Connection } from './transactions.ts'

export interface WorkspaceQuotas {
  pipes: number
  destinations: number
  /** Counts active keys only. */
  apiKeys: number
  origins: number
}

export const noQuotas: WorkspaceQuotas = {
  pipes: Number.POSITIVE_INFINITY,
  destinations: Number.POSITIVE_INFINITY,
  apiKeys: Number.POSITIVE_INFINITY,
  origins: Number.POSITIVE_INFINITY,
}

/** Throws `workspace_full`. Expects `workspaceId` in lower case. */
export async function requireRoom(
  trx: Connection,
  workspaceId: string,
  what: keyof WorkspaceQuotas,
  quotas: WorkspaceQuotas,
): Promise<void> {
  const most = quotas[what]
  if ((await counts[what](trx, workspaceId).executeTakeFirstOrThrow()).count < most) return
  const { setting, words } = named[what]
  throw new ApiError('workspace_full', {
    message: `This workspace has reached its limit of ${most} ${words}. Delete one, or raise ${setting}.`,
    details: { limit: setting, limit_value: most },
  })
}

/**
 * Limits the deleted pipes whose messages are still in the buffer: metadata and buffer remember each of them. A client
 * that creates and deletes pipes in a loop must wait. Throws `workspace_full`.
 */
export async function requireFewDeleted(trx: Connection, workspaceId: string): Promise<void> {
  const most = resourceLimits.deletedPipesPerWorkspace
  const query = trx.selectFrom('deleted_pipes').select(count).where('workspace_id', '=', workspaceId)
  const { count: deleted } = await query.executeTakeFirstOrThrow()
  if (deleted < most) return
  throw new ApiError('workspace_full', {
    message: `This workspace has deleted ${deleted} pipes whose messages are still in the buffer. Create a new pipe once those are dropped.`,
    details: { limit: 'deleted_pipes_per_workspace', limit_value: most },
  })
}

const named: Record<keyof WorkspaceQuotas, { setting: string; words: string }> = {
  pipes: { setting: 'workspace.max_pipes', words: 'pipes' },
  destinations: { setting: 'workspace.max_destinations', words: 'destinations' },
  apiKeys: { setting: 'workspace.max_api_keys', words: 'active API keys' },
  origins: { setting: 'workspace.max_origins', words: 'allowed origins' },
}

const count = sql<number>`count(*)`.as('count')

interface CountQuery {
  executeTakeFirstOrThrow(): Promise<{ count: number }>
}

const counts: Record<keyof WorkspaceQuotas, (trx: Connection, workspaceId: string) => CountQuery> = {
  pipes: (trx, id) => trx.selectFrom('pipes').select(count).where('workspace_id', '=', id),
  apiKeys: (trx, id) =>
    trx
      .selectFrom('api_keys')
      .select(count)
      .where('api_key_status', '=', 'active')
      .where('workspace_id', '=', id),
  destinations: (trx, id) =>
    trx
      .selectFrom('destinations')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .select(count)
      .where('pipes.workspace_id', '=', id),
  origins: (trx, id) =>
    trx
      .selectFrom('pipe_allowed_origins as origin')
      .innerJoin('pipes', 'pipes.pipe_id', 'origin.pipe_id')
      .select(count)
      .where('pipes.workspace_id', '=', id),
}
