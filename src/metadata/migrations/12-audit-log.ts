/** Migration 12: the audit log. An entry is known by its number within its workspace, so that pages and the oldest are found by the key. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function auditLog(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('audit_log')
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('audit_id', 'bigint', (column) => column.notNull())
    .addColumn('audit_ms', 'bigint', (column) => column.notNull())
    .addColumn('operation', 'text', (column) => column.notNull())
    .addColumn('actor_kind', 'text', (column) => column.notNull())
    .addColumn('actor_id', 'text')
    .addColumn('actor_name', 'text')
    .addColumn('address', 'text')
    .addColumn('resource_id', 'text')
    .addColumn('pipe_id', 'text')
    .addColumn('before_json', 'text')
    .addColumn('after_json', 'text')
    .addPrimaryKeyConstraint('audit_log_key', ['workspace_id', 'audit_id'])
    .addForeignKeyConstraint('audit_log_workspace', ['workspace_id'], 'workspaces', ['workspace_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
}
