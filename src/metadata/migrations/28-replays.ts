/** Migration 28: replays of ranges of messages. Released: never changed (the test of migrations holds its hash). */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createReplays(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('replays')
    .addColumn('replay_id', 'text', (column) => column.primaryKey())
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('is_over', 'integer', (column) => column.notNull())
    .addColumn('created_ms', 'bigint', (column) => column.notNull())
    .addColumn('finished_ms', 'bigint')
    .addColumn('request_json', 'text', (column) => column.notNull())
    .addColumn('progress_json', 'text', (column) => column.notNull())
    .addForeignKeyConstraint(
      'replays_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (reference) => reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createIndex('replays_by_destination')
    .on('replays')
    .columns(['destination_id', 'is_over', 'replay_id'])
    .execute()
}
