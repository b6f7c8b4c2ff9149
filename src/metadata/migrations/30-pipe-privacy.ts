/**
 * Migration 30: how much of client addresses a pipe keeps, and for how long it keeps messages. Released: never changed (the
 * test of migrations holds its hash).
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export async function addPipePrivacy(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .alterTable('pipes')
    .addColumn('pipe_client_ip', 'text', (column) => column.notNull().defaultTo('full'))
    .execute()
  await trx.schema.alterTable('pipes').addColumn('pipe_retention_hours', 'integer').execute()
}
