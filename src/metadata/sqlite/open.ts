/** The SQLite file as a database for the repositories above. */
import { CompiledQuery, Kysely } from 'kysely'
import type { Tables } from '../tables.ts'
import type { OpenedDatabase } from '../transactions.ts'
import { sqliteDialect } from './dialect.ts'
import { assertFullSync, openSqliteFile } from './file.ts'
import { keepCopy } from './upgrade-copy.ts'

/** Rows that this connection has changed, and how often another one has changed the file: 10 µs, whatever is in it. */
const changesOfFile = CompiledQuery.raw(
  'SELECT total_changes() AS own, (SELECT data_version FROM pragma_data_version) AS others',
)

/** Throws ConfigError when the file cannot be opened or is not a database. */
export async function openSqliteDatabase(file: string): Promise<OpenedDatabase> {
  const database = await openSqliteFile(file)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(database) })
  return {
    db,
    label: file,
    async version() {
      const { rows } = await db.executeQuery<{ own: number; others: number }>(changesOfFile)
      return `${rows[0]?.own}.${rows[0]?.others}`
    },
    assertDurable: () => assertFullSync(database),
    // Its write transactions wait for each other.
    prepare: (work) => work(db),
    keepCopy: (newestFormat, now) => keepCopy(database, newestFormat, now),
    openingError: (error) => error,
    leases: db,
    listen: null,
  }
}
