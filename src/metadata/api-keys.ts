/**
 * API keys: the hash of each key, its rights, and the fields that a list shows. docs/dev/contract.md#ids-and-api-keys,
 * docs/dev/contract.md#key-scopes.
 *
 * A key expires by itself, because authentication compares the time. Lists say `expired` from that moment. The row
 * keeps `active` until the workspace's keys are next read for another reason (`settleExpired`).
 */

import { randomUUID } from 'node:crypto'
import { type ApiKey, type ApiKeyScope, apiKeyScopes, type KeyRights } from '../contract/api-key.ts'
import { ApiError, validationError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Audited } from './audit.ts'
import type { NewApiKey } from './key-tokens.ts'
import { requireRoom, type WorkspaceQuotas } from './quotas.ts'
import { insertUnlessTaken, nextNumber } from './rows.ts'
import { type ApiKeyRef, type ApiKeyRow, isoTime, normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

export interface ApiKeyStore {
  list(workspaceId: string): Promise<ApiKey[]>
  /**
   * Throws `duplicate_api_key_name` (names are unique among active keys), and `validation_error` for a pipe that the
   * workspace does not have.
   */
  create(workspaceId: string, key: NewApiKey): Promise<ApiKey>
  /**
   * Creates a key and ends another one at `endMs`, or earlier if it expires earlier; null revokes it now. `decide` receives
   * the old key and may throw. Null: there is no active key with this id.
   */
  rotate(
    key: ApiKeyRef,
    endMs: number | null,
    decide: (old: ApiKey) => NewApiKey,
  ): Promise<{ created: ApiKey; replaced: ApiKey } | null>
  /** Removes the rows of these keys if they are revoked or expired. Returns their number. */
  forget(workspaceId: string, apiKeyIds: readonly string[]): Promise<number>
  /** Records that these keys were used during the minute starting at `minuteMs`. Spans workspaces. */
  used(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
  /**
   * False: there is no active key with this id. The row stays listed for a while. Above the workspace's limit of revoked
   * keys, those that were revoked first are removed.
   */
  revoke(key: ApiKeyRef): Promise<boolean>
  /** Removes the rows of keys, in all workspaces, that were revoked or expired before this time. */
  prune(revokedBeforeMs: number): Promise<void>
}

export function apiKeys(
  db: Connection,
  now: () => number,
  quotas: WorkspaceQuotas,
  inAudited: Audited,
): ApiKeyStore {
  const create = async (trx: Connection, workspaceId: string, key: NewApiKey) => {
    await requireRoom(trx, workspaceId, 'apiKeys', quotas)
    await requirePipes(trx, workspaceId, key.rights)
    return await insertApiKey(trx, workspaceId, key, now())
  }
  return {
    list: async (workspaceId) => (await rowsOf(db, workspaceId)).map((row) => shown(row, now())),

    create: (workspaceId, key) =>
      inAudited(async (trx, record) => {
        await settleExpired(trx, now(), normaliseId(workspaceId))
        const after = await create(trx, normaliseId(workspaceId), key)
        await record({ ...of(workspaceId, after), operation: 'createApiKey', before: null, after })
        return after
      }),

    rotate: ({ workspaceId, apiKeyId }, endMs, decide) =>
      inAudited(async (trx, record) => {
        await settleExpired(trx, now(), normaliseId(workspaceId))
        const old = await activeRow(trx, { workspaceId, apiKeyId })
        if (old === undefined) return null
        const ended = await endKey(trx, old, endMs, now())
        // Runs after the old key has ended, so a workspace at its limit of keys can still replace one.
        const key = decide(shown(old, now()))
        await requireRoom(trx, old.workspace_id, 'apiKeys', quotas)
        const before = shown(old, now())
        const replaced = shown(ended, now())
        const created = await insertApiKey(trx, old.workspace_id, key, now())
        const after = { ...replaced, replaced_by: created.api_key_id }
        await record({ ...of(workspaceId, created), operation: 'rotateApiKey', before: null, after: created })
        await record({
          ...of(workspaceId, replaced),
          operation: 'rotateApiKey',
          before: { ...before },
          after,
        })
        return { created, replaced }
      }),

    revoke: ({ workspaceId, apiKeyId }) =>
      inAudited(async (trx, record) => {
        await settleExpired(trx, now(), normaliseId(workspaceId))
        const old = await activeRow(trx, { workspaceId, apiKeyId })
        if (old === undefined) return false
        const ended = await endKey(trx, old, null, now())
        const [before, after] = [shown(old, now()), shown(ended, now())]
        await record({ ...of(workspaceId, after), operation: 'revokeApiKey', before, after })
        return true
      }),

    forget: (workspaceId, apiKeyIds) =>
      inAudited(async (trx, record) => {
        await settleExpired(trx, now(), normaliseId(workspaceId))
        if (apiKeyIds.length === 0) return 0
        const forgotten = await deleteRevoked(trx, workspaceId, apiKeyIds)
        const purged = { operation: 'purgeApiKeys', resourceId: null, pipeId: null, after: null }
        if (forgotten > 0) await record({ workspaceId, ...purged, before: { keys: forgotten } })
        return forgotten
      }),

    async used(apiKeyIds, minuteMs) {
      if (apiKeyIds.length > 0) await inWriteTransaction(db, (trx) => noteUse(trx, apiKeyIds, minuteMs))
    },

    async prune(revokedBeforeMs) {
      await inWriteTransaction(db, async (trx) => {
        await settleExpired(trx, now(), null)
        await trx
          .deleteFrom('api_keys')
          .where('api_key_status', '=', 'revoked')
          .where('api_key_revoked_ms', '<', revokedBeforeMs)
          .execute()
      })
    },
  }
}

const of = (workspaceId: string, key: ApiKey) => ({
  workspaceId,
  resourceId: key.api_key_id,
  // The audit entry of a key with a single pipe belongs to that pipe.
  pipeId: key.api_key_pipe_ids?.length === 1 ? (key.api_key_pipe_ids[0] ?? null) : null,
})

/**
 * Marks expired keys as revoked, which frees their names and counts them among the revoked ones. `workspaceId` null:
 * all workspaces.
 */
async function settleExpired(trx: Connection, nowMs: number, workspaceId: string | null): Promise<void> {
  const query = trx
    .updateTable('api_keys')
    .set((eb) => ({ api_key_status: 'revoked' as const, api_key_revoked_ms: eb.ref('api_key_expires_ms') }))
    .where('api_key_status', '=', 'active')
    .where('api_key_expires_ms', '<=', nowMs)
  await (workspaceId === null ? query : query.where('workspace_id', '=', workspaceId)).execute()
}

async function rowsOf(db: Connection, workspaceId: string): Promise<ApiKeyRow[]> {
  return await db
    .selectFrom('api_keys')
    .selectAll()
    .where('workspace_id', '=', normaliseId(workspaceId))
    .orderBy('creation_order')
    .orderBy('api_key_id')
    .execute()
}

/** Ends the key at `endMs`, or earlier if it expires earlier; null revokes it now. */
async function endKey(
  trx: Connection,
  old: ApiKeyRow,
  endMs: number | null,
  nowMs: number,
): Promise<ApiKeyRow> {
  const ended =
    endMs === null
      ? { ...old, api_key_status: 'revoked' as const, api_key_revoked_ms: nowMs }
      : { ...old, api_key_expires_ms: Math.min(endMs, old.api_key_expires_ms ?? endMs) }
  const { api_key_status, api_key_revoked_ms, api_key_expires_ms } = ended
  await trx
    .updateTable('api_keys')
    .set({ api_key_status, api_key_revoked_ms, api_key_expires_ms })
    .where('api_key_id', '=', old.api_key_id)
    .execute()
  if (endMs === null) await dropOldestRevoked(trx, old.workspace_id)
  return ended
}

async function noteUse(trx: Connection, apiKeyIds: readonly string[], minuteMs: number): Promise<void> {
  await trx
    .updateTable('api_keys')
    .set({ api_key_last_used_ms: minuteMs })
    .where('api_key_id', 'in', apiKeyIds.map(normaliseId))
    .execute()
}

async function deleteRevoked(
  trx: Connection,
  workspaceId: string,
  apiKeyIds: readonly string[],
): Promise<number> {
  const result = await trx
    .deleteFrom('api_keys')
    .where('workspace_id', '=', normaliseId(workspaceId))
    .where('api_key_status', '=', 'revoked')
    .where('api_key_id', 'in', apiKeyIds.map(normaliseId))
    .executeTakeFirst()
  return Number(result.numDeletedRows)
}

async function activeRow(
  trx: Connection,
  { workspaceId, apiKeyId }: ApiKeyRef,
): Promise<ApiKeyRow | undefined> {
  return await trx
    .selectFrom('api_keys')
    .selectAll()
    .where('workspace_id', '=', normaliseId(workspaceId))
    .where('api_key_id', '=', normaliseId(apiKeyId))
    .where('api_key_status', '=', 'active')
    .executeTakeFirst()
}

/** A client that creates and revokes keys in a loop must not fill the database or the lists that show the keys. */
async function dropOldestRevoked(trx: Connection, workspaceId: string): Promise<void> {
  await trx
    .deleteFrom('api_keys')
    .where('api_key_id', 'in', (eb) =>
      eb
        .selectFrom('api_keys')
        .select('api_key_id')
        .where('workspace_id', '=', workspaceId)
        .where('api_key_status', '=', 'revoked')
        .orderBy('api_key_revoked_ms', 'desc')
        .orderBy('creation_order', 'desc')
        // SQLite has no OFFSET without a LIMIT. At most one row is beyond the offset.
        .limit(100_000)
        .offset(resourceLimits.revokedApiKeysPerWorkspace),
    )
    .execute()
}

/** A key for a pipe that does not exist would give no access, and no error would explain it. */
async function requirePipes(trx: Connection, workspaceId: string, { pipeIds }: KeyRights): Promise<void> {
  if (pipeIds === null) return
  const found = await trx
    .selectFrom('pipes')
    .select('pipe_id')
    .where('workspace_id', '=', workspaceId)
    .where('pipe_id', 'in', pipeIds)
    .execute()
  const known = new Set(found.map((row) => row.pipe_id))
  const errors: Record<string, string> = {}
  for (const [index, pipeId] of pipeIds.entries())
    if (!known.has(pipeId)) errors[`api_key_pipe_ids.${index}`] = 'is not a pipe of this workspace'
  if (Object.keys(errors).length > 0) throw validationError(errors)
}

/** Runs inside the transaction of the caller. Throws `duplicate_api_key_name`. */
export async function insertApiKey(
  trx: Connection,
  workspaceId: string,
  { name, prefix, hash, rights }: NewApiKey,
  nowMs: number,
): Promise<ApiKey> {
  const row: ApiKeyRow = {
    api_key_id: randomUUID(),
    workspace_id: workspaceId,
    api_key_name: name,
    api_key_prefix: prefix,
    api_key_hash: hash,
    api_key_status: 'active',
    api_key_created_ms: nowMs,
    api_key_revoked_ms: null,
    api_key_scopes: rights.scopes.join(','),
    api_key_pipe_ids: rights.pipeIds === null ? null : JSON.stringify(rights.pipeIds),
    api_key_expires_ms: rights.expiresMs,
    api_key_last_used_ms: null,
    creation_order: await nextNumber(trx, 'api_keys', 'creation_order', { workspace_id: workspaceId }),
  }
  if (!(await insertUnlessTaken(trx, 'api_keys', row))) throw new ApiError('duplicate_api_key_name')
  return shown(row, nowMs)
}

/** A scope that this version does not know gives no access. */
export function rightsOf(row: ApiKeyRow): KeyRights {
  const names = row.api_key_scopes.split(',')
  return {
    scopes: apiKeyScopes.filter((scope: ApiKeyScope) => names.includes(scope)),
    pipeIds: row.api_key_pipe_ids === null ? null : (JSON.parse(row.api_key_pipe_ids) as string[]),
    expiresMs: row.api_key_expires_ms,
  }
}

function shown(row: ApiKeyRow, nowMs: number): ApiKey {
  const { scopes, pipeIds, expiresMs } = rightsOf(row)
  const endedMs = row.api_key_revoked_ms ?? nowMs
  const isExpired = expiresMs !== null && expiresMs <= endedMs
  return {
    api_key_id: row.api_key_id,
    api_key_name: row.api_key_name,
    api_key_prefix: row.api_key_prefix,
    api_key_status: isExpired ? 'expired' : row.api_key_status,
    api_key_scopes: [...scopes],
    api_key_pipe_ids: pipeIds === null ? null : [...pipeIds],
    api_key_expires_ts: expiresMs === null ? null : isoTime(expiresMs),
    api_key_last_used_ts: row.api_key_last_used_ms === null ? null : isoTime(row.api_key_last_used_ms),
    api_key_created_ts: isoTime(row.api_key_created_ms),
  }
}
