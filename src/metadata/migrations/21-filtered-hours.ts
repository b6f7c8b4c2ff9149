/**
 * Migration 21: what transforms left out in each hour, of a pipe and of a lane. Hours before it are not known and show as
 * zeros; of all time, `lanes.filtered_records` has it.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function filteredHours(trx: Transaction<Tables>): Promise<void> {
  for (const table of ['usage_hours', 'lane_hours'])
    await trx.schema
      .alterTable(table)
      .addColumn('filtered_records', 'bigint', (column) => column.notNull().defaultTo(0))
      .execute()
}
