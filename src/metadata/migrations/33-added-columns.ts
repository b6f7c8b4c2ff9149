/**
 * Migration 33: columns that `auto_add_columns` adds to tables. Released: never changed (the test of migrations holds its
 * hash).
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createAddedColumns(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('added_columns')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('column_name', 'text', (column) => column.notNull())
    .addColumn('table_key', 'text', (column) => column.notNull())
    .addColumn('planned_ms', 'bigint', (column) => column.notNull())
    .addColumn('is_added', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('added_columns_key', ['destination_id', 'column_name'])
    .addForeignKeyConstraint(
      'added_columns_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (reference) => reference.onDelete('cascade'),
    )
    .execute()
}
