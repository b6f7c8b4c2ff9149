/** Opens the SQLite file as a database for the repositories in `metadata`. */
import { CompiledQuery, Kysely } from 'kysely'
import type { Tables } from '../tables.ts'
import type { OpenedDatabase } from '../transactions.ts'
import { sqliteDialect } from './dialect.ts'
import { assertFullSync, openSqliteFile } from './file.ts'
import { rewriteFile } from './rewrite.ts'
import { keepCopy, removeCopies } from './upgrade-copy.ts'

/** Counts rows changed by this connection, and commits of other connections. Takes 10 µs for any size of the file. */
const changesOfFile = CompiledQuery.raw(
  'SELECT total_changes() AS own, (SELECT data_version FROM pragma_data_version) AS others',
)

/** Throws ConfigError if the file cannot be opened or is not a database. */
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
    // Write transactions wait for each other, so no second connection is needed.
    prepare: (work) => work(db),
    keepCopy: (newestFormat, now) => keepCopy(database, newestFormat, now),
    openingError: (error) => error,
    file: { rewrite: () => rewriteFile(file), removeCopies: () => removeCopies(file) },
    leases: db,
    listen: null,
  }
}
