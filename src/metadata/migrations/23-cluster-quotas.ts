/**
 * Migration 23: limits that hold for all nodes of a cluster. On one machine the tables stay empty.
 *
 * `quota_days` has what nodes have reserved of a pipe's day, used or not. `granted_…` is what the last reservation got, because
 * an UPDATE of PostgreSQL before 18 cannot return what a row was before. `quota_rates` has what each node's clients ask for.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function clusterQuotas(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('quota_days')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('day_start_ms', 'bigint', (column) => column.notNull())
    .addColumn('ledger_id', 'text', (column) => column.notNull())
    .addColumn('records', 'bigint', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('granted_records', 'bigint', (column) => column.notNull())
    .addColumn('granted_bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('quota_days_key', ['pipe_id', 'day_start_ms'])
    .addForeignKeyConstraint('quota_days_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createTable('quota_rates')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('records_per_second', 'bigint', (column) => column.notNull())
    .addColumn('expires_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('quota_rates_key', ['pipe_id', 'node_id'])
    .execute()
}
