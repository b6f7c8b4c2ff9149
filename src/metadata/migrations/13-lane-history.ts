/**
 * Migration 13: what became of the messages that each lane moved past. Of what lies before it nothing is on record: it counts as
 * delivered, nobody knows when.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function laneHistory(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('lane_history')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('first_seq', 'bigint', (column) => column.notNull())
    .addColumn('last_seq', 'bigint', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('at_ms', 'bigint', (column) => column.notNull())
    .addColumn('batch_last_seq', 'bigint')
    .addColumn('attempts', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('lane_history_key', ['destination_id', 'first_seq'])
    .addForeignKeyConstraint(
      'lane_history_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
}
