/**
 * Migration 19: what nodes of a cluster share. On one machine the tables stay empty.
 *
 * What holds something is a lease, and leases are rows of few tables, so that renewing them costs the same however many pipes
 * there are. A row whose lease is not there (any more) is held by nobody; only pipes go with their row.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function cluster(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .createTable('cluster_nodes')
    .addColumn('lease_id', 'text', (column) => column.primaryKey())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('node_name', 'text', (column) => column.notNull())
    .addColumn('node_version', 'text', (column) => column.notNull())
    .addColumn('node_address', 'text')
    .addColumn('started_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_ms', 'bigint', (column) => column.notNull())
    .addColumn('seen_change', 'bigint', (column) => column.notNull())
    .addColumn('is_draining', 'integer', (column) => column.notNull())
    .addUniqueConstraint('cluster_nodes_node', ['node_id'])
    .execute()
  await trx.schema
    .createTable('cluster_workers')
    .addColumn('lease_id', 'text', (column) => column.primaryKey())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('expires_ms', 'bigint', (column) => column.notNull())
    .execute()
  await trx.schema
    .createTable('pipe_owners')
    .addColumn('pipe_id', 'text', (column) => column.primaryKey())
    .addColumn('lease_id', 'text')
    .addColumn('epoch', 'bigint', (column) => column.notNull())
    .addForeignKeyConstraint('pipe_owners_pipe', ['pipe_id'], 'pipes', ['pipe_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  await trx.schema.createIndex('pipe_owners_lease').on('pipe_owners').column('lease_id').execute()
  await trx.schema
    .createTable('cluster_duties')
    .addColumn('duty', 'text', (column) => column.primaryKey())
    .addColumn('lease_id', 'text')
    .execute()
  await trx.schema
    .createTable('changes')
    .addColumn('change_seq', 'bigint', (column) => column.primaryKey())
    .addColumn('pipe_id', 'text')
    .addColumn('api_key_id', 'text')
    .addColumn('is_revoked', 'integer', (column) => column.notNull())
    .addColumn('change_ms', 'bigint', (column) => column.notNull())
    .execute()
}
