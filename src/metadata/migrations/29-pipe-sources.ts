/**
 * Migration 29: sources of webhooks, and the webhooks that were rejected, by reason. Released: never changed (the test
 * of migrations holds its hash).
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createPipeSources(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('pipes').addColumn('pipe_source', 'text').execute()
  await trx.schema
    .alterTable('pipes')
    .addColumn('pipe_source_headers', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute()
  await trx.schema
    .alterTable('pipes')
    .addColumn('pipe_source_raw', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await trx.schema
    .createTable('rejected_hooks')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('hour_ms', 'bigint', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('requests', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('rejected_hooks_key', ['pipe_id', 'hour_ms', 'reason'])
    .addForeignKeyConstraint('rejected_hooks_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('rejected_hooks_by_hour').on('rejected_hooks').column('hour_ms').execute()
}
