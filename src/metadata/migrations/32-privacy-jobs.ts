/** Migration 32: jobs on personal data. Released: never changed (the test of migrations holds its hash). */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function createPrivacyJobs(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('privacy_jobs')
    .addColumn('job_id', 'text', (column) => column.primaryKey())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('is_over', 'integer', (column) => column.notNull())
    .addColumn('created_ms', 'bigint', (column) => column.notNull())
    .addColumn('finished_ms', 'bigint')
    .addColumn('request_json', 'text', (column) => column.notNull())
    .addColumn('sealed_keys', 'text')
    .addColumn('progress_json', 'text', (column) => column.notNull())
    .addForeignKeyConstraint(
      'privacy_jobs_workspace',
      ['workspace_id'],
      'workspaces',
      ['workspace_id'],
      (reference) => reference.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createIndex('privacy_jobs_by_workspace')
    .on('privacy_jobs')
    .columns(['workspace_id', 'is_over', 'job_id'])
    .execute()
}
