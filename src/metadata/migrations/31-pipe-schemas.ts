/**
 * Migration 31: schemas of pipes and their versions, and the records that did not match. Released: never changed (the
 * test of migrations holds its hash).
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createPipeSchemas(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('pipes').addColumn('pipe_schema', 'text').execute()
  await trx.schema
    .alterTable('pipes')
    .addColumn('pipe_schema_on_mismatch', 'text', (column) => column.notNull().defaultTo('reject'))
    .execute()
  await trx.schema
    .alterTable('pipes')
    .addColumn('pipe_schema_tag_field', 'text', (column) => column.notNull().defaultTo('schema_errors'))
    .execute()
  await trx.schema
    .createTable('schema_versions')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('changed_ms', 'bigint', (column) => column.notNull())
    .addColumn('actor_kind', 'text', (column) => column.notNull())
    .addColumn('actor_id', 'text')
    .addColumn('actor_name', 'text')
    .addColumn('pipe_schema', 'text')
    .addColumn('pipe_schema_on_mismatch', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('schema_versions_key', ['pipe_id', 'version'])
    .addForeignKeyConstraint('schema_versions_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createTable('schema_mismatches')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('hour_ms', 'bigint', (column) => column.notNull())
    .addColumn('result', 'text', (column) => column.notNull())
    .addColumn('records', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('schema_mismatches_key', ['pipe_id', 'hour_ms', 'result'])
    .addForeignKeyConstraint('schema_mismatches_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (reference) =>
      reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createIndex('schema_mismatches_by_hour')
    .on('schema_mismatches')
    .column('hour_ms')
    .execute()
}
