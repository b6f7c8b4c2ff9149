/** Migration 18: what each database destination saw of keys that no column takes. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function destinationDrift(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('destination_drift')
    .addColumn('destination_id', 'text', (column) => column.primaryKey())
    .addColumn('mapping_hash', 'text', (column) => column.notNull())
    .addColumn('state_json', 'text', (column) => column.notNull())
    .addForeignKeyConstraint(
      'destination_drift_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
}
