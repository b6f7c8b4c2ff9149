/**
 * The database's clock as a term of a statement, ms since the epoch. On PostgreSQL it is the server's clock at the time
 * of the statement (`now()` would be the start of the transaction); on SQLite it is this process's clock.
 */
import { type RawBuilder, sql } from 'kysely'
import type { MetadataSpec } from '../../metadata/store.ts'

/** Called for each statement. */
export type DatabaseClock = () => RawBuilder<number>

const ofServer = sql<number>`CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)`

export function databaseClock(kind: MetadataSpec['kind'], now: () => number): DatabaseClock {
  return kind === 'postgresql' ? () => ofServer : () => sql<number>`CAST(${now()} AS bigint)`
}
