/** Migration 20: what a destination's transform is (JSON, its salt sealed), and how many records a lane has left out by it. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function transforms(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('destinations').addColumn('transform', 'text').execute()
  await trx.schema
    .alterTable('lanes')
    .addColumn('filtered_records', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
}
