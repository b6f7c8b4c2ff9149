/** The SQLite file as a database for the repositories above. */
import { Kysely } from 'kysely'
import type { OpenedDatabase } from '../database.ts'
import { sqliteDialect } from './dialect.ts'
import { assertFullSync, openSqliteFile } from './file.ts'

/** Throws ConfigError when the file cannot be opened or is not a database. */
export async function openSqliteDatabase(file: string): Promise<OpenedDatabase> {
  const database = await openSqliteFile(file)
  return {
    db: new Kysely({ dialect: sqliteDialect(database) }),
    label: file,
    assertDurable: () => assertFullSync(database),
  }
}
