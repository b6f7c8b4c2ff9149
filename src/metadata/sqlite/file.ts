/**
 * Opens the SQLite file under the metadata. Everything specific to SQLite (pragmas, BEGIN IMMEDIATE, its error codes)
 * is in this folder.
 *
 * Two connections write the same file, the main thread's and the delivery thread's, and a third while `pipectl
 * workspaces create` runs. WAL lets them read at any time. Write transactions take the lock when they begin, so they
 * wait for it there and never fail in the middle to upgrade a read lock.
 */
import { closeSync, openSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { ConfigError } from '../../platform/config-error.ts'
import { errorCode, isNoSpace } from '../../platform/error-code.ts'
import { fsyncDirectory } from '../../platform/fsync.ts'
import { inWords } from '../../platform/storage-error.ts'

export const busyTimeoutMs = 10_000

/** Opens the file, or creates it with mode 0600. Throws ConfigError if it cannot be opened or is not a database. */
export async function openSqliteFile(file: string): Promise<Database.Database> {
  let database: Database.Database | undefined
  try {
    // SQLite gives -wal and -shm the mode of the main file.
    closeSync(openSync(file, 'a', 0o600))
    database = new Database(file, { timeout: busyTimeoutMs })
    await switchToWal(database)
    // SQLite may call fdatasync, which promises nothing about the names of the file and of its -wal.
    fsyncDirectory(path.dirname(file))
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    return database
  } catch (error) {
    database?.close()
    throw toConfigError(file, error)
  }
}

/**
 * The change to WAL mode does not wait for a lock as other statements do: it fails if two processes open a new file at
 * once.
 */
async function switchToWal(database: Database.Database): Promise<void> {
  const deadline = Date.now() + busyTimeoutMs
  for (;;) {
    try {
      database.pragma('journal_mode = WAL')
      return
    } catch (error) {
      if (errorCode(error) !== 'SQLITE_BUSY' || Date.now() > deadline) throw error
      await delay(20)
    }
  }
}

function toConfigError(file: string, error: unknown): unknown {
  if (isNoSpace(error)) return error
  const code = errorCode(error) ?? ''
  if (code === 'SQLITE_NOTADB') {
    return new ConfigError(
      `metadata: ${file} is not a pipectl metadata file: put the right file back, or restore a backup`,
    )
  }
  if ((/^E[A-Z]+$/.test(code) && code !== 'EIO') || /^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/.test(code)) {
    return new ConfigError(`metadata: ${file} cannot be opened for writing (${code})`, error)
  }
  return inWords(error, 'opening', file)
}

/**
 * Throws if commits would not be durable. Call it after a write. better-sqlite3 is built with `synchronous = NORMAL` as
 * the default in WAL mode, and reports FULL until the first access. A level below FULL would silently lose acknowledged
 * changes in a power cut.
 */
export function assertFullSync(database: Database.Database): void {
  const level = database.pragma('synchronous', { simple: true })
  if (level !== 2)
    throw new Error(`metadata: PRAGMA synchronous is ${level}, not FULL: changes would not be durable`)
}

/** Changes nothing. Throws the errors of SQLite. */
export function readSqliteFile<T>(file: string, read: (database: Database.Database) => T): T {
  const database = new Database(file, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs })
  try {
    return read(database)
  } finally {
    database.close()
  }
}
