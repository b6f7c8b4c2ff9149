/**
 * The files of SQLite destinations: where they are, and how to open one for reading.
 *
 *   DATA_DIR/tables/WORKSPACE_ID/NAME.sqlite        the file of a destination, created by its first CREATE TABLE
 *                                NAME.sqlite-wal    newest commits: belongs to the file, is needed to read it
 *                                NAME.sqlite-shm    index of the WAL: derived
 *
 * The workspace is part of the path and a name has neither a dot nor a slash, so no workspace reaches the file of
 * another one. `tables` can be a symbolic link to another disk. A file cannot be one: its content would be outside.
 *
 * Order of a backup: metadata, then these files, then the buffer. A file that is newer than the position of its lane makes the lane
 * repeat records. A file that is older lacks records that the lane does not send again. See `maintenance/backup.ts`.
 *
 * Only SQLite opens NAME.sqlite in the process of the daemon. If a process closes a descriptor of its own, the system releases all
 * locks that the process has on the file (POSIX), also those of SQLite.
 */
import { lstatSync, mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { fileNamePattern } from '../../contract/destinations/sqlite.fields.ts'
import { errorCode } from '../../platform/error-code.ts'
import { fsyncDirectory } from '../../platform/fsync.ts'

const ending = '.sqlite'
const isFileName = new RegExp(fileNamePattern)
const isWorkspaceId = /^[0-9A-Za-z][0-9A-Za-z-]{0,63}$/
const readBusyTimeoutMs = 5_000

export interface TableFile {
  workspaceId: string
  /** The value of the config key `file`. */
  file: string
  path: string
}

export function tablesDirOf(dataDir: string): string {
  return path.join(dataDir, 'tables')
}

/** Throws for a name that no destination can have. */
export function tableFilePath(tablesDir: string, workspaceId: string, file: string): string {
  if (!isFileName.test(file)) throw new Error('this is not the name of a table file')
  if (!isWorkspaceId.test(workspaceId)) throw new Error('this is not the id of a workspace')
  return path.join(tablesDir, workspaceId.toLowerCase(), `${file}${ending}`)
}

/** True if the file exists. Throws if the path is something else, such as a directory or a symbolic link. */
export function isTableFile(file: string): boolean {
  const found = lstatSync(file, { throwIfNoEntry: false })
  if (found === undefined) return false
  if (!found.isFile()) throw new NotATableFileError(file)
  return true
}

export class NotATableFileError extends Error {
  constructor(file: string) {
    super(`${path.basename(file)} is a directory, a symbolic link or a device, not a file`)
    this.name = 'NotATableFileError'
  }
}

/** The files of one workspace or of all, sorted. Empty if the directory does not exist. */
export function listTableFiles(tablesDir: string, onlyWorkspaceId?: string): TableFile[] {
  const workspaces = onlyWorkspaceId === undefined ? namesIn(tablesDir) : [onlyWorkspaceId.toLowerCase()]
  return workspaces
    .filter((workspaceId) => isWorkspaceId.test(workspaceId))
    .flatMap((workspaceId) =>
      namesIn(path.join(tablesDir, workspaceId))
        .filter((name) => name.endsWith(ending) && isFileName.test(name.slice(0, -ending.length)))
        .map((name) => name.slice(0, -ending.length))
        .map((file) => ({ workspaceId, file, path: tableFilePath(tablesDir, workspaceId, file) })),
    )
    .filter((one) => lstatSync(one.path, { throwIfNoEntry: false })?.isFile())
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir).sort()
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return []
    throw error
  }
}

/** Creates the directories of a file, so that their names survive a power cut. */
export function createTableDirectory(file: string): void {
  const dir = path.dirname(file)
  const tablesDir = path.dirname(dir)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  for (const one of [path.dirname(tablesDir), tablesDir]) fsyncDirectory(one)
}

/**
 * Opens an existing file for reading, while a lane can write it: WAL lets both continue. A transaction that stays open
 * keeps the WAL from being reset, so end it soon. Throws NotATableFileError, or the error of SQLite.
 */
export function openTableFileReadOnly(file: string): Database.Database {
  isTableFile(file)
  const database = new Database(file, { readonly: true, fileMustExist: true, timeout: readBusyTimeoutMs })
  try {
    database.pragma('query_only = ON')
    // Functions with side effects are not run by a schema that a user created.
    database.pragma('trusted_schema = OFF')
    return database
  } catch (error) {
    database.close()
    throw error
  }
}
