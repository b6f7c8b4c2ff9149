/**
 * The clock of the database as a term of a statement, ms since the epoch: on PostgreSQL the server's own, read when the
 * statement runs (`now()` would be when its transaction began); SQLite has this process's.
 */
import { type RawBuilder, sql } from 'kysely'
import type { MetadataSpec } from '../../metadata/store.ts'

/** Called for each statement. */
export type DatabaseClock = () => RawBuilder<number>

const ofServer = sql<number>`CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)`

export function databaseClock(kind: MetadataSpec['kind'], now: () => number): DatabaseClock {
  return kind === 'postgresql' ? () => ofServer : () => sql<number>`CAST(${now()} AS bigint)`
}
