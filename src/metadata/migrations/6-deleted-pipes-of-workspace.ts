/** Migration 6: whose the deleted pipes were, because a workspace may have only so many that the buffer still knows. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function deletedPipesOfWorkspace(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('deleted_pipes').addColumn('workspace_id', 'text').execute()
  await trx.schema
    .createIndex('deleted_pipes_of_workspace')
    .on('deleted_pipes')
    .columns(['workspace_id'])
    .execute()
}
