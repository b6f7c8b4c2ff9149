/** Migration 34: records parked at pipes. Released: never changed (the test of migrations holds its hash). */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createPipeParked(trx: Transaction<Tables>): Promise<void> {
  const { schema } = trx
  await schema
    .createTable('pipe_parked')
    .addColumn('parked_id', 'text', (column) => column.primaryKey())
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('msg_id', 'text', (column) => column.notNull())
    .addColumn('record_index', 'bigint', (column) => column.notNull())
    .addColumn('received_ms', 'bigint', (column) => column.notNull())
    .addColumn('parked_ms', 'bigint', (column) => column.notNull())
    .addColumn('schema_version', 'bigint', (column) => column.notNull())
    .addColumn('error_path', 'text', (column) => column.notNull())
    .addColumn('errors', 'text', (column) => column.notNull())
    .addColumn('enrichment', 'text', (column) => column.notNull())
    .addColumn('is_keyed', 'integer', (column) => column.notNull())
    .addColumn('is_replaying', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('edits', 'bigint', (column) => column.notNull().defaultTo(0))
    .addColumn('record_bytes', 'bigint', (column) => column.notNull())
    .addColumn('record', 'text', (column) => column.notNull())
    .addForeignKeyConstraint('pipe_parked_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await schema
    .createIndex('pipe_parked_in_order')
    .on('pipe_parked')
    .columns(['pipe_id', 'msg_id', 'record_index'])
    .execute()
  await schema
    .createIndex('pipe_parked_by_age')
    .on('pipe_parked')
    .columns(['is_replaying', 'parked_ms'])
    .execute()
  await schema
    .createTable('pipe_parked_sums')
    .addColumn('pipe_id', 'text', (column) => column.primaryKey())
    .addColumn('rows', 'bigint', (column) => column.notNull())
    .addColumn('record_bytes', 'bigint', (column) => column.notNull())
    .addColumn('dropped_records', 'bigint', (column) => column.notNull())
    .addForeignKeyConstraint('pipe_parked_sums_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await schema
    .createTable('pipe_parked_done')
    .addColumn('parked_id', 'text', (column) => column.primaryKey())
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('msg_id', 'text', (column) => column.notNull())
    .addColumn('done_ms', 'bigint', (column) => column.notNull())
    .addForeignKeyConstraint('pipe_parked_done_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await schema.createIndex('pipe_parked_done_by_age').on('pipe_parked_done').column('done_ms').execute()
  // For the cascade of a deleted pipe.
  await schema.createIndex('pipe_parked_done_by_pipe').on('pipe_parked_done').column('pipe_id').execute()
}
