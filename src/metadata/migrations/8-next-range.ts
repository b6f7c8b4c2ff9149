/**
 * Migration 8: the range after the one under way, which is stored before the one under way has ended. Rows keep their
 * checksum: it covers the two columns where they hold something.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function nextRange(trx: Transaction<Tables>): Promise<void> {
  const lanes = () => trx.schema.alterTable('lanes')
  await lanes().addColumn('next_first_seq', 'bigint').execute()
  await lanes().addColumn('next_last_seq', 'bigint').execute()
}
