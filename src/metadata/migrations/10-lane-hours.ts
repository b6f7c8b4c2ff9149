/**
 * Migration 10: what each lane delivered, failed and skipped in each hour, beside the sums of its pipe. Hours before it are not
 * known; they show as zeros until the window has passed them.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function laneHours(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('lane_hours')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('hour_ms', 'bigint', (column) => column.notNull())
    .addColumn('delivered_records', 'bigint', (column) => column.notNull())
    .addColumn('failed_attempts', 'bigint', (column) => column.notNull())
    .addColumn('skipped_records', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('lane_hours_key', ['destination_id', 'hour_ms'])
    .addForeignKeyConstraint(
      'lane_hours_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('lane_hours_by_hour').on('lane_hours').columns(['hour_ms']).execute()
}
