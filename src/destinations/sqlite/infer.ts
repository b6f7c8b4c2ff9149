/** POST …/destinations/infer for SQLite files: reads the table, and creates or extends it on request. */
import { closeSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import type { TableProposal } from '../../contract/table-proposal.ts'
import { fsyncDirectory } from '../../platform/fsync.ts'
import type { DriverSettings, InferRequest, SqliteSpec } from '../driver.ts'
import { type InferSession, inferTable } from '../sql/infer/infer.ts'
import { sqliteError } from './errors.ts'
import { createTableDirectory, isTableFile, openTableFileReadOnly } from './files.ts'
import { quoteSqliteIdentifier } from './identifiers.ts'
import { placeOf } from './place.ts'
import { describeTable, missingTable, noFile } from './table.ts'
import { OpenTableFile } from './table-file.ts'

export async function inferSqlite(
  spec: SqliteSpec,
  settings: DriverSettings,
  _signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const { file, table } = spec.config
  return await inferTable(spec, request, {
    dialect: 'sqlite',
    addsSeveral: false,
    errorOf: (error) => sqliteError(error, `${file}.sqlite`),
    table: quoteSqliteIdentifier(table),
    quote: quoteSqliteIdentifier,
    primaryKey: 'NOT NULL PRIMARY KEY',
    tableOptions: ' STRICT',
    missingTable,
    open: async () => session(spec, placeOf(spec, settings).path),
  })
}

/** Nothing is created before a statement runs. */
function session({ config }: SqliteSpec, path: string): InferSession {
  return {
    isMariadb: false,
    async columns() {
      if (!isTableFile(path)) throw noFile(config.file)
      const database = openTableFileReadOnly(path)
      try {
        return describeTable(database, config.file, config.table).columns
      } finally {
        database.close()
      }
    },
    async run(statement) {
      if (!isTableFile(path)) createFile(path)
      const file = new OpenTableFile(path)
      try {
        file.database.exec(statement)
      } finally {
        file.close()
      }
    },
    close: async () => {},
  }
}

/** With mode 0600, which SQLite gives to -wal and -shm, too. */
function createFile(path: string): void {
  createTableDirectory(path)
  closeSync(openSync(path, 'a', 0o600))
  const database = new Database(path, { fileMustExist: true })
  try {
    database.pragma('journal_mode = WAL')
  } finally {
    database.close()
  }
  fsyncDirectory(dirname(path))
}
