/**
 * The lock of a data directory: one daemon at a time.
 *
 * Node has no flock, so the lock is SQLite's own exclusive file lock: the kernel drops it with the process, however that
 * ends. `daemon.lock` stays empty: nothing is ever committed to it, and its journal is in memory, so that taking it
 * needs no disk space. What somebody else wrote into it is cut off in place: the file that another daemon may be holding
 * must not be replaced.
 *
 * Trap: closing any descriptor of a file drops all locks that this process has on it. So the file is opened besides
 * SQLite only while it cannot be locked by us: when it does not exist, or is not empty.
 */
import { chmodSync, closeSync, openSync, type Stats, statSync, truncateSync } from 'node:fs'
import Database from 'better-sqlite3'
import { ConfigError } from '../platform/config-error.ts'
import { errorCode, isNoSpace } from '../platform/error-code.ts'

/** Another daemon has the data directory: exit 75. */
export class DataDirInUseError extends Error {
  constructor(root: string) {
    super(`data directory ${root} is in use by another pipectl daemon; stop it, or use another --data-dir`)
    this.name = 'DataDirInUseError'
  }
}

/**
 * Takes the directory for this process; the returned function releases it. Throws DataDirInUseError, ConfigError when
 * the file cannot be used, and what the system says when there is no space for it.
 */
export function lockDataDir({ root, lockFile }: { root: string; lockFile: string }): () => void {
  try {
    return lock(lockFile)
  } catch (error) {
    if (error instanceof ConfigError || isNoSpace(error)) throw error
    const code = errorCode(error) ?? ''
    if (code.startsWith('SQLITE_BUSY')) throw new DataDirInUseError(root)
    throw new ConfigError(`data_dir: ${lockFile} cannot be locked (${code || String(error)})`, error)
  }
}

function lock(file: string): () => void {
  makeEmpty(file)
  const database = new Database(file, { timeout: 0 })
  try {
    database.pragma('journal_mode = MEMORY')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    throw error
  }
  return () => database.close()
}

/** There, a file, empty, and nobody else's to open. */
function makeEmpty(file: string): void {
  const found = statOrMake(file)
  if (!found.isFile()) {
    throw new ConfigError(`data_dir: ${file} is not a file; move it away, then start again`)
  }
  if ((found.mode & 0o077) !== 0) chmodSync(file, 0o600)
  if (found.size > 0) truncateSync(file)
}

function statOrMake(file: string): Stats {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found !== undefined) return found
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    // Another daemon made it just now.
    if (errorCode(error) !== 'EEXIST') throw error
  }
  return statSync(file)
}
