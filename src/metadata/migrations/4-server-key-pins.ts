/**
 * Migration 4: the key of a database server whose certificate is not verified, pinned with its destination, and how often
 * pinning began anew: what was connected to before that may pin nothing.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function serverKeyPins(trx: Transaction<Tables>): Promise<void> {
  const destinations = () => trx.schema.alterTable('destinations')
  await destinations().addColumn('tls_pin_sha256', 'text').execute()
  await destinations().addColumn('tls_pin_first_seen_ms', 'bigint').execute()
  await destinations()
    .addColumn('tls_pin_generation', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
}
