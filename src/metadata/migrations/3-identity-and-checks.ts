/**
 * Migration 3: a checksum in every lane's row, and the ids of deleted pipes: the buffer drops what it holds of a pipe
 * because metadata says that it was deleted, never because metadata does not know it.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'
import { checkOfColumns } from './25-lane-states.ts'

export async function identityAndChecks(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('lanes').addColumn('row_check', 'bigint').execute()
  for (const row of await trx.selectFrom('lanes').selectAll().execute()) {
    await trx
      .updateTable('lanes')
      .set({ row_check: checkOfColumns({ ...row }) })
      .where('destination_id', '=', row.destination_id)
      .execute()
  }
  await trx.schema
    .createTable('deleted_pipes')
    .addColumn('pipe_id', 'text', (column) => column.notNull())
    .addColumn('deleted_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('deleted_pipes_key', ['pipe_id'])
    .execute()
}
