/** Migration 26: the delivery attempts of lanes. Released: never changed (the test of migrations holds its hash). */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createAttempts(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('lane_attempts')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('slot', 'integer', (column) => column.notNull())
    .addColumn('attempt_no', 'bigint', (column) => column.notNull())
    .addColumn('at_ms', 'bigint', (column) => column.notNull())
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('attempt_json', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('lane_attempts_key', ['destination_id', 'slot'])
    .addForeignKeyConstraint(
      'lane_attempts_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (reference) => reference.onDelete('cascade'),
    )
    .execute()
}
