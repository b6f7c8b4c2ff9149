/**
 * Changes of leases: each is one statement, or a few that need not be seen together, whose conditions are checked again on
 * the row as it is once its lock is free. So they need no serialisable transaction, in which every two renewals of a small
 * table would conflict.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'

export function inStatements<T>(db: Connection, work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return db.transaction().setIsolationLevel('read committed').execute(work)
}
