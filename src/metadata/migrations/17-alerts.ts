/**
 * Migration 17: alerts. Where those of a workspace go, with what became of the last ones; what was told of which lane, so that
 * a restart neither tells it again nor forgets to tell its end; and what is to be sent.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function alerts(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('alert_settings')
    .addColumn('workspace_id', 'text', (column) => column.primaryKey())
    .addColumn('alert_url', 'text', (column) => column.notNull())
    .addColumn('alert_secret', 'text')
    .addColumn('alert_format', 'text', (column) => column.notNull())
    .addColumn('alert_events', 'text')
    .addColumn('has_begun', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('last_sent_ms', 'bigint')
    .addColumn('failed_ms', 'bigint')
    .addColumn('failure_code', 'text')
    .addColumn('failure_message', 'text')
    .addForeignKeyConstraint(
      'alert_settings_workspace',
      ['workspace_id'],
      'workspaces',
      ['workspace_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createTable('alert_marks')
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('subject', 'text', (column) => column.notNull())
    .addColumn('event', 'text', (column) => column.notNull())
    .addColumn('mark_state', 'text', (column) => column.notNull())
    .addColumn('since_ms', 'bigint')
    .addColumn('told_ms', 'bigint')
    .addColumn('held_back', 'bigint', (column) => column.notNull().defaultTo(0))
    .addColumn('counted', 'bigint', (column) => column.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('alert_marks_key', ['workspace_id', 'subject', 'event'])
    .addForeignKeyConstraint(
      'alert_marks_settings',
      ['workspace_id'],
      'alert_settings',
      ['workspace_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createTable('alert_queue')
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('alert_order', 'bigint', (column) => column.notNull())
    .addColumn('alert_id', 'text', (column) => column.notNull())
    .addColumn('alert_ms', 'bigint', (column) => column.notNull())
    .addColumn('alert_json', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('alert_queue_key', ['workspace_id', 'alert_order'])
    .addForeignKeyConstraint(
      'alert_queue_settings',
      ['workspace_id'],
      'alert_settings',
      ['workspace_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
}
