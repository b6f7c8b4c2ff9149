/**
 * The lock of a data directory: only one daemon at a time.
 *
 * Node has no flock, so the lock is SQLite's exclusive file lock. The kernel releases it when the process ends in any
 * way. `daemon.lock` stays empty: nothing is committed to it, and its journal is in memory, so that locking needs no
 * disk space. Foreign content is truncated in place, because a file that another daemon can hold must not be
 * replaced.
 *
 * Trap: closing any descriptor of a file drops all locks that this process holds on it. The file is therefore opened
 * outside of SQLite only while this process cannot hold its lock: if it does not exist or is not empty.
 */
import { chmodSync, closeSync, existsSync, openSync, type Stats, statSync, truncateSync } from 'node:fs'
import Database from 'better-sqlite3'
import { ConfigError } from '../platform/config-error.ts'
import { errorCode, isNoSpace } from '../platform/error-code.ts'

/** Another daemon holds the data directory: exit code 75. */
export class DataDirInUseError extends Error {
  constructor(root: string) {
    super(`data directory ${root} is in use by another pipectl daemon; stop it, or use another --data-dir`)
    this.name = 'DataDirInUseError'
  }
}

/**
 * Locks the directory for this process. Returns a function that releases the lock. Throws DataDirInUseError,
 * ConfigError if the file cannot be used, and the system's error if there is no space for it.
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

/** Ensures that the file exists, is a regular empty file, and can be opened only by this user. */
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
    // Another daemon has just created it.
    if (errorCode(error) !== 'EEXIST') throw error
  }
  return statSync(file)
}

export function isDaemonRunning(dir: { root: string; lockFile: string }): boolean {
  if (!existsSync(dir.lockFile)) return false
  try {
    lockDataDir(dir)()
    return false
  } catch (error) {
    // Other commands report a lock file that cannot be opened.
    return error instanceof DataDirInUseError
  }
}
