/**
 * Migration 7: people who sign in, their sessions and the one-time links with which they make an account. Of a session and
 * a link only the SHA-256 is stored: who reads the file cannot sign in with it.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function people(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('users')
    .addColumn('user_id', 'text', (column) => column.notNull())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('user_email', 'text', (column) => column.notNull())
    .addColumn('user_role', 'text', (column) => column.notNull())
    .addColumn('password_hash', 'text', (column) => column.notNull())
    .addColumn('user_created_ms', 'bigint', (column) => column.notNull())
    .addColumn('user_last_sign_in_ms', 'bigint')
    .addColumn('creation_order', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('users_key', ['user_id'])
    .addUniqueConstraint('users_email', ['user_email'])
    .addForeignKeyConstraint('users_workspace', ['workspace_id'], 'workspaces', ['workspace_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('users_of_workspace').on('users').columns(['workspace_id']).execute()

  await trx.schema
    .createTable('sessions')
    .addColumn('session_hash', 'text', (column) => column.notNull())
    .addColumn('user_id', 'text', (column) => column.notNull())
    .addColumn('session_created_ms', 'bigint', (column) => column.notNull())
    .addColumn('session_last_used_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('sessions_key', ['session_hash'])
    .addForeignKeyConstraint('sessions_user', ['user_id'], 'users', ['user_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('sessions_of_user').on('sessions').columns(['user_id']).execute()

  await trx.schema
    .createTable('setup_tokens')
    .addColumn('token_hash', 'text', (column) => column.notNull())
    .addColumn('workspace_id', 'text', (column) => column.notNull())
    .addColumn('user_role', 'text', (column) => column.notNull())
    .addColumn('setup_expires_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('setup_tokens_key', ['token_hash'])
    .addForeignKeyConstraint(
      'setup_tokens_workspace',
      ['workspace_id'],
      'workspaces',
      ['workspace_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
}
