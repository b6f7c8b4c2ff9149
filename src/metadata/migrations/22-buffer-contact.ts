/**
 * Migration 22: from when to when the buffer answered a delivery thread, and whether the thread has lost it. Null: the thread is of an
 * earlier version, which does not say.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function bufferContact(trx: Transaction<Tables>): Promise<void> {
  for (const column of ['buffer_from_ms', 'buffer_until_ms'])
    await trx.schema.alterTable('cluster_workers').addColumn(column, 'bigint').execute()
  await trx.schema
    .alterTable('cluster_workers')
    .addColumn('is_buffer_lost', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
}
