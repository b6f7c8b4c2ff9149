/**
 * Helpers for changes of leases. Each change is one statement, or a few independent ones, whose conditions are checked
 * again after the row's lock is acquired. So they need no serializable transaction, in which any two renewals in a small
 * table would conflict.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'

export function inStatements<T>(db: Connection, work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return db.transaction().setIsolationLevel('read committed').execute(work)
}
