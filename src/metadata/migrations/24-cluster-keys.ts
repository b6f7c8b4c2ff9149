/**
 * Migration 24: idempotency keys of a cluster. On one machine the tables stay empty.
 *
 * `key_claims` has the keys of requests that are under way. `used_keys_<n>` are a ring: each has the keys of eight hours, and is emptied
 * as a whole before its turn comes again. No statement deletes used keys one by one, so no rate of requests is too high for it.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

const ringTables = 6

export async function clusterKeys(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('key_claims')
    .addColumn('key_hash', 'text', (column) => column.primaryKey())
    .addColumn('body_hash', 'text', (column) => column.notNull())
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('chain', 'text', (column) => column.notNull())
    .addColumn('after_seq', 'bigint', (column) => column.notNull())
    .addColumn('attempt_id', 'text', (column) => column.notNull())
    .addColumn('msg_id', 'text', (column) => column.notNull())
    .addColumn('record_count', 'bigint', (column) => column.notNull())
    .addColumn('claimed_ms', 'bigint', (column) => column.notNull())
    .execute()
  for (let table = 0; table < ringTables; table += 1)
    await trx.schema
      .createTable(`used_keys_${table}`)
      .addColumn('key_hash', 'text', (column) => column.primaryKey())
      .addColumn('body_hash', 'text', (column) => column.notNull())
      .addColumn('msg_id', 'text', (column) => column.notNull())
      .addColumn('record_count', 'bigint', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('used_ms', 'bigint', (column) => column.notNull())
      .execute()
}
