/**
 * Helpers for changes of leases. Each change is one statement, or a few independent ones, whose conditions are checked
 * again after the row's lock is acquired. So they need no serializable transaction, in which any two renewals in a small
 * table would conflict.
 */
import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { MetadataSpec } from '../../metadata/store.ts'
import type { Tables } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'

export function inStatements<T>(db: Connection, work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return db.transaction().setIsolationLevel('read committed').execute(work)
}

/** Called for each statement. */
export type DatabaseClock = () => RawBuilder<number>

const ofServer = sql<number>`CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)`

/**
 * The database's clock as a term of a statement, ms since the epoch. On PostgreSQL it is the server's clock at the time
 * of the statement (`now()` would be the start of the transaction); on SQLite it is this process's clock.
 */
export function databaseClock(kind: MetadataSpec['kind'], now: () => number): DatabaseClock {
  return kind === 'postgresql' ? () => ofServer : () => sql<number>`CAST(${now()} AS bigint)`
}
