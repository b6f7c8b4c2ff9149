/**
 * The SQLite file under the metadata: how it is opened, and Kysely's dialect over it. Everything that only SQLite has
 * (pragmas, BEGIN IMMEDIATE, its error codes) stands in this file.
 *
 * Two connections write the same file, the main thread's and the delivery thread's, and a third while
 * `pipectl workspaces create` runs. WAL lets them read at any time; write transactions take the lock at their
 * beginning (IMMEDIATE), so that waiting is the busy timeout's business and never a failed upgrade half-way.
 */
import { closeSync, openSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
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
import { ConfigError } from '../config.ts'

const busyTimeoutMs = 10_000

/** Opens (or makes, with mode 0600) the file. Throws ConfigError when it cannot be opened or is not a database. */
export async function openSqlite(file: string): Promise<Database.Database> {
  let database: Database.Database | undefined
  try {
    // SQLite gives -wal and -shm the mode of the file itself.
    closeSync(openSync(file, 'a', 0o600))
    database = new Database(file, { timeout: busyTimeoutMs })
    await switchToWal(database)
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    return database
  } catch (error) {
    database?.close()
    throw explained(file, error)
  }
}

/** The change to WAL does not wait as other statements do: two processes opening a new file at once collide here. */
async function switchToWal(database: Database.Database): Promise<void> {
  const deadline = Date.now() + busyTimeoutMs
  for (;;) {
    try {
      database.pragma('journal_mode = WAL')
      return
    } catch (error) {
      if (codeOf(error) !== 'SQLITE_BUSY' || Date.now() > deadline) throw error
      await delay(20)
    }
  }
}

function explained(file: string, error: unknown): unknown {
  const code = codeOf(error)
  if (code === 'SQLITE_NOTADB') return new ConfigError(`metadata: ${file} is not a pipectl metadata file`)
  if (/^E[A-Z]+$/.test(code) || /^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/.test(code)) {
    return new ConfigError(`metadata: ${file} cannot be opened for writing (${code})`)
  }
  return error
}

/**
 * better-sqlite3 is built with `synchronous = NORMAL` as the default in WAL mode, and says FULL until the first access:
 * a setting that did not hold would lose acknowledged changes in a power cut without a sign. Call after a write.
 */
export function assertFullSync(database: Database.Database): void {
  const level = database.pragma('synchronous', { simple: true })
  if (level !== 2)
    throw new Error(`metadata: PRAGMA synchronous is ${level}, not FULL: changes would not be durable`)
}

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
   * SQLite's own busy wait blocks the thread: sockets on the main thread would stand still while the delivery thread
   * syncs, and two connections of one thread would wait for each other in vain. So the lock is tried for, and between
   * tries the event loop runs.
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
        throw new Error(`metadata: the file was locked by another process for ${busyTimeoutMs / 1000} s`)
      }
      await delay(1)
    }
  }

  #tryBeginImmediate(): boolean {
    this.#database.pragma('busy_timeout = 0')
    try {
      dieOfIoErrors(() => this.#begin.run())
      return true
    } catch (error) {
      if (codeOf(error).startsWith('SQLITE_BUSY')) return false
      throw error
    } finally {
      this.#database.pragma(`busy_timeout = ${busyTimeoutMs}`)
    }
  }

  /** After some errors (disk full, I/O) SQLite has rolled back already; a second rollback would hide the first error. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection)
  }
}

/** Preparing costs more than running for small statements; the code has a bounded set of texts, so all are kept. */
function withStatementCache(database: Database.Database): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>()
  return {
    close: () => database.close(),
    prepare(sql) {
      let statement = statements.get(sql)
      if (statement === undefined) {
        statement = guarded(database.prepare(sql))
        if (statements.size >= 500) statements.clear()
        statements.set(sql, statement)
      }
      return statement
    },
  }
}

function guarded(statement: Database.Statement<unknown[]>): SqliteStatement {
  return {
    reader: statement.reader,
    all: (parameters) => dieOfIoErrors(() => statement.all(...parameters)),
    run: (parameters) => dieOfIoErrors(() => statement.run(...parameters)),
    iterate: (parameters) => statement.iterate(...parameters) as IterableIterator<unknown>,
  }
}

/**
 * After a failed read, write or fsync nothing this process believes about the file can be trusted (SQLite may go on
 * and commit over the hole): besides failing the caller, the error is thrown where nobody catches it and ends the
 * thread, and with it the process.
 */
function dieOfIoErrors<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (codeOf(error).startsWith('SQLITE_IOERR')) {
      setImmediate(() => {
        throw error
      })
    }
    throw error
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
