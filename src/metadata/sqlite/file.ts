/**
 * The SQLite file under the metadata: how it is opened. Everything that only SQLite has (pragmas, BEGIN IMMEDIATE, its
 * error codes) is in this folder.
 *
 * Two connections write the same file, the main thread's and the delivery thread's, and a third while
 * `pipectl workspaces create` runs. WAL lets them read at any time; write transactions take the lock at their
 * beginning, so that waiting is the busy timeout's business and never a failed upgrade half-way.
 */
import { closeSync, openSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { ConfigError } from '../../platform/config-error.ts'
import { errorCode, isNoSpace } from '../../platform/error-code.ts'
import { inWords } from '../../platform/storage-error.ts'

export const busyTimeoutMs = 10_000

/** Opens (or makes, with mode 0600) the file. Throws ConfigError when it cannot be opened or is not a database. */
export async function openSqliteFile(file: string): Promise<Database.Database> {
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
    throw toConfigError(file, error)
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
      `metadata: ${file} is not a pipectl metadata file: put back the one that belongs here, or restore a backup`,
    )
  }
  if ((/^E[A-Z]+$/.test(code) && code !== 'EIO') || /^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/.test(code)) {
    return new ConfigError(`metadata: ${file} cannot be opened for writing (${code})`, error)
  }
  return inWords(error, 'opening', file)
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
