/** API keys: of each, its hash and what a list shows. Contract "Ids, keys, auth". */
import { randomUUID } from 'node:crypto'
import type { ApiKey } from '../contract/api-key.ts'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { type ApiKeyRow, type Connection, inWriteTransaction, isoTime, normaliseId } from './database.ts'
import { requireRoom, type WorkspaceQuotas } from './quotas.ts'
import type { Metadata, NewApiKey } from './store.ts'

export function apiKeys(db: Connection, now: () => number, quotas: WorkspaceQuotas): Metadata['apiKeys'] {
  return {
    async list(workspaceId) {
      const rows = await db
        .selectFrom('api_keys')
        .selectAll()
        .where('workspace_id', '=', normaliseId(workspaceId))
        .orderBy('creation_order')
        .orderBy('api_key_id')
        .execute()
      return rows.map(shown)
    },

    create: (workspaceId, key) =>
      inWriteTransaction(db, async (trx) => {
        await requireRoom(trx, normaliseId(workspaceId), 'apiKeys', quotas)
        return await insertApiKey(trx, normaliseId(workspaceId), key, now())
      }),

    revoke: (workspaceId, apiKeyId) =>
      inWriteTransaction(db, async (trx) => {
        const result = await trx
          .updateTable('api_keys')
          .set({ api_key_status: 'revoked', api_key_revoked_ms: now() })
          .where('workspace_id', '=', normaliseId(workspaceId))
          .where('api_key_id', '=', normaliseId(apiKeyId))
          .where('api_key_status', '=', 'active')
          .executeTakeFirst()
        if (result.numUpdatedRows === 0n) return false
        await dropOldestRevoked(trx, normaliseId(workspaceId))
        return true
      }),

    async prune(revokedBeforeMs) {
      await inWriteTransaction(db, (trx) =>
        trx
          .deleteFrom('api_keys')
          .where('api_key_status', '=', 'revoked')
          .where('api_key_revoked_ms', '<', revokedBeforeMs)
          .execute(),
      )
    },
  }
}

/** Whoever makes keys and revokes them in a loop must not fill the database, nor the lists that show them. */
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
        // SQLite knows no OFFSET without a LIMIT; more than one only where an older version has left them.
        .limit(100_000)
        .offset(resourceLimits.revokedApiKeysPerWorkspace),
    )
    .execute()
}

/** Inside the transaction that also makes the workspace, or its own. Throws `duplicate_api_key_name`. */
export async function insertApiKey(
  trx: Connection,
  workspaceId: string,
  key: NewApiKey,
  nowMs: number,
): Promise<ApiKey> {
  const last = await trx
    .selectFrom('api_keys')
    .select((eb) => eb.fn.max('creation_order').as('order'))
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  const row: ApiKeyRow = {
    api_key_id: randomUUID(),
    workspace_id: workspaceId,
    api_key_name: key.name,
    api_key_prefix: key.prefix,
    api_key_hash: key.hash,
    api_key_status: 'active',
    api_key_created_ms: nowMs,
    api_key_revoked_ms: null,
    creation_order: Number(last?.order ?? 0) + 1,
  }
  const inserted = await trx
    .insertInto('api_keys')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if (inserted.numInsertedOrUpdatedRows === 0n) throw new ApiError('duplicate_api_key_name')
  return shown(row)
}

function shown(row: ApiKeyRow): ApiKey {
  return {
    api_key_id: row.api_key_id,
    api_key_name: row.api_key_name,
    api_key_prefix: row.api_key_prefix,
    api_key_status: row.api_key_status,
    api_key_created_ts: isoTime(row.api_key_created_ms),
  }
}
