/**
 * Migration 5: when a key was revoked, because the rows of revoked keys are kept for a while and not for ever. Those that
 * are revoked already count from now.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function revokedKeys(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('api_keys').addColumn('api_key_revoked_ms', 'bigint').execute()
  await trx
    .updateTable('api_keys')
    .set({ api_key_revoked_ms: Date.now() })
    .where('api_key_status', '=', 'revoked')
    .execute()
  // Without it, what one workspace does costs more the more keys the others have.
  await trx.schema.createIndex('api_keys_of_workspace').on('api_keys').columns(['workspace_id']).execute()
}
