/** Migration 11: how often a lane was rewound, which tells what a table's lane row says from what it said before a rewind. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function laneGenerations(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .alterTable('lanes')
    .addColumn('generation', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
}
