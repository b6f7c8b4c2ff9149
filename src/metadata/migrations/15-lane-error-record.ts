/** Migration 15: of a lane's last error, what is at fault, and the first refused record as far as the destination names it. */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function laneErrorRecord(trx: Transaction<Tables>): Promise<void> {
  const lanes = () => trx.schema.alterTable('lanes')
  await lanes().addColumn('error_fault', 'text').execute()
  await lanes().addColumn('error_record_index', 'bigint').execute()
  await lanes().addColumn('error_column', 'text').execute()
  await lanes().addColumn('error_value', 'text').execute()
}
