/** Migration 27: the latency of lanes by hour. Released: never changed (the test of migrations holds its hash). */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createLatency(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('lane_latency')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('hour_ms', 'bigint', (column) => column.notNull())
    .addColumn('latency_json', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('lane_latency_key', ['destination_id', 'hour_ms'])
    .addForeignKeyConstraint(
      'lane_latency_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (reference) => reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('lane_latency_by_hour').on('lane_latency').column('hour_ms').execute()
}
