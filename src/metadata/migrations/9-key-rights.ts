/** Migration 9: what a key may do, for which pipes, until when, and when it was last used. Keys that are there stay as they were. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function keyRights(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .alterTable('api_keys')
    .addColumn('api_key_scopes', 'text', (column) => column.notNull().defaultTo('manage'))
    .execute()
  await trx.schema.alterTable('api_keys').addColumn('api_key_pipe_ids', 'text').execute()
  await trx.schema.alterTable('api_keys').addColumn('api_key_expires_ms', 'bigint').execute()
  await trx.schema.alterTable('api_keys').addColumn('api_key_last_used_ms', 'bigint').execute()
}
