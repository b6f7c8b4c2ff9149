/**
 * Kysely's dialect for the SQLite file. Write transactions take SQLite's write lock when they begin (IMMEDIATE), so
 * they run one after the other and none has to be repeated. Waiting for the lock does not block the thread.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type Database from 'better-sqlite3'
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type SqliteStatement,
  type TransactionSettings,
} from 'kysely'
import { errorCode, isNoSpace, StorageUnavailableError } from '../../platform/error-code.ts'
import { isCorrupt, StorageError } from '../../platform/storage-error.ts'
import { busyTimeoutMs } from './file.ts'

export function sqliteDialect(database: Database.Database): Dialect {
  return {
    createDriver: () => new ImmediateDriver(database),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
  }
}

class ImmediateDriver extends SqliteDriver {
  readonly #database: Database.Database
  readonly #begin: Database.Statement<[]>

  constructor(database: Database.Database) {
    super({ database: withStatementCache(database) })
    this.#database = database
    this.#begin = database.prepare('begin immediate')
  }

  /**
   * SQLite's own busy wait blocks the thread: sockets on the main thread would wait while the delivery thread syncs,
   * and two connections of one thread would deadlock. So this polls for the lock, and the event loop runs between
   * attempts.
   */
  override async beginTransaction(
    connection: DatabaseConnection,
    settings?: TransactionSettings,
  ): Promise<void> {
    if (settings?.accessMode === 'read only') {
      await connection.executeQuery(CompiledQuery.raw('begin'))
      return
    }
    const deadline = performance.now() + busyTimeoutMs
    while (!this.#tryBeginImmediate()) {
      if (performance.now() > deadline) {
        const seconds = busyTimeoutMs / 1000
        throw new StorageUnavailableError(`metadata: the file was locked by another process for ${seconds} s`)
      }
      await delay(1)
    }
  }

  #tryBeginImmediate(): boolean {
    this.#database.pragma('busy_timeout = 0')
    try {
      crashOnIoError(this.#database.name, () => this.#begin.run())
      return true
    } catch (error) {
      if (errorCode(error)?.startsWith('SQLITE_BUSY')) return false
      throw error
    } finally {
      this.#database.pragma(`busy_timeout = ${busyTimeoutMs}`)
    }
  }

  /**
   * After some errors (disk full, I/O) SQLite has already rolled back. A second rollback would hide the first error.
   */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection)
  }
}

/**
 * For small statements preparing costs more than running. The code has a bounded number of statements, so all are
 * cached.
 */
function withStatementCache(database: Database.Database): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>()
  return {
    close: () => database.close(),
    prepare(sql) {
      let statement = statements.get(sql)
      if (statement === undefined) {
        statement = withIoCheck(crashOnIoError(database.name, () => database.prepare(sql)))
        if (statements.size >= 500) statements.clear()
        statements.set(sql, statement)
      }
      return statement
    },
  }
}

function withIoCheck(statement: Database.Statement<unknown[]>): SqliteStatement {
  const file = statement.database.name
  return {
    reader: statement.reader,
    all: (parameters) => crashOnIoError(file, () => statement.all(...parameters)),
    run: (parameters) => crashOnIoError(file, () => statement.run(...parameters)),
    iterate: (parameters) => statement.iterate(...parameters) as IterableIterator<unknown>,
  }
}

/**
 * After a failed read, write or fsync this process cannot trust anything about the file, and SQLite may commit over the
 * damage. So the caller's call fails, and the error is also thrown uncaught, which ends the thread and the process. A
 * full disk is not such a failure.
 */
function crashOnIoError<T>(file: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (isNoSpace(error)) throw new StorageUnavailableError('metadata: no space', error)
    const code = errorCode(error) ?? ''
    if (isCorrupt({ code })) throw new StorageError('reading', file, error)
    if (!code.startsWith('SQLITE_IOERR')) throw error
    const failure = new StorageError('reading or writing', file, error)
    setImmediate(() => {
      throw failure
    })
    throw failure
  }
}
