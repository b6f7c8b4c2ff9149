/** The files of SQLite destinations in restore, `verify` and `doctor`. `backup.ts` copies them. */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { markTableName } from '../destinations/sql/exactly-once-mark.ts'
import {
  listTableFiles,
  openTableFileReadOnly,
  type TableFile,
  tablesDirOf,
} from '../destinations/sqlite/files.ts'
import { fileBytes } from '../log/segments/layout.ts'
import { destinationConfigs } from '../metadata/sqlite/offline.ts'
import { messageOf } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'
import { bytes, counted } from '../platform/quantities.ts'
import { type Check, checkNamed } from './check.ts'
import { dataDirAt } from './data-dir.ts'

/** Problems that are listed of one damaged file. */
const listedProblems = 10

/** Its name in an archive and in reports: relative to the data directory, also if `tables` is a link to another disk. */
export function nameOfTableFile({ workspaceId, file }: TableFile): string {
  return `tables/${workspaceId}/${file}.sqlite`
}

/**
 * Moves the marks of `exactly_once` in restored files to the timeline that begins with the restore. The files were copied after
 * the lanes' cursors and before the buffer, so each mark is at or after the cursor of its lane, and its message is in the buffer:
 * the restored lanes continue after it, and store nothing twice. Marks of other timelines stay.
 */
export function continueMarks(dataDir: string, from: string, to: string): void {
  for (const file of listTableFiles(tablesDirOf(dataDir))) {
    const database = new Database(file.path, { fileMustExist: true })
    try {
      if (hasMarks(database))
        database.prepare(`UPDATE ${markTableName} SET timeline = ? WHERE timeline = ?`).run(to, from)
      // The archive has one file of each database.
      database.pragma('wal_checkpoint(TRUNCATE)')
    } finally {
      database.close()
    }
    fsyncFile(file.path)
  }
}

/** A table of this name that is not ours has no column `timeline`. */
function hasMarks(database: Database.Database): boolean {
  return (
    database.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?').get(markTableName, 'timeline') !==
    undefined
  )
}

/** Makes the names of restored files durable. */
export function fsyncTableDirectories(dataDir: string): void {
  const tablesDir = tablesDirOf(dataDir)
  if (!existsSync(tablesDir)) return
  for (const name of readdirSync(tablesDir)) fsyncDirectory(path.join(tablesDir, name))
  fsyncDirectory(tablesDir)
}

export interface CheckedTableFile {
  file: string
  bytes: number
  problems: string[]
}

/** Reads each file as a whole: its structure and its indexes. SQLite has no checksums of rows. */
export function checkTableFiles(dataDir: string): CheckedTableFile[] {
  return listTableFiles(tablesDirOf(dataDir)).map((one) => ({
    file: nameOfTableFile(one),
    bytes: fileBytes(one.path),
    problems: problemsOf(one),
  }))
}

function problemsOf({ path: file }: TableFile): string[] {
  try {
    const database = openTableFileReadOnly(file)
    try {
      const rows = database.prepare(`PRAGMA integrity_check(${listedProblems})`).pluck().all()
      return rows.map(String).filter((problem) => problem !== 'ok')
    } finally {
      database.close()
    }
  } catch (error) {
    return [messageOf(error)]
  }
}

/** The check of `doctor`: whether each file can be opened, and which ones no destination uses. */
export function tableFileChecks(root: string): Check[] {
  const files = listTableFiles(tablesDirOf(root))
  if (files.length === 0) return []
  const check = checkNamed('table files')
  const damaged = files.flatMap((one) => openingProblem(one) ?? [])
  if (damaged.length > 0)
    return [
      check.fail(
        damaged.slice(0, 3).join('; '),
        `run: pipectl verify --data-dir ${root}; a damaged file is restored from a backup, or with \`.recover\` of sqlite3`,
      ),
    ]
  const size = files.reduce((sum, one) => sum + fileBytes(one.path) + fileBytes(`${one.path}-wal`), 0)
  const unused = files.filter((one) => !usedNames(root).has(nameOfTableFile(one))).map(nameOfTableFile)
  const rest =
    unused.length === 0
      ? ''
      : `; no destination uses ${unused.slice(0, 3).join(', ')}${unused.length > 3 ? ` and ${counted(unused.length - 3, 'more file')}` : ''}`
  return [check.ok(`${counted(files.length, 'file')}, ${bytes(size)}: all can be opened${rest}`)]
}

function openingProblem(one: TableFile): string | null {
  try {
    const database = openTableFileReadOnly(one.path)
    try {
      database.prepare('SELECT count(*) FROM sqlite_schema').get()
      return null
    } finally {
      database.close()
    }
  } catch (error) {
    return `${nameOfTableFile(one)}: ${messageOf(error)}`
  }
}

function usedNames(root: string): Set<string> {
  const configs = destinationConfigs(dataDirAt(root).metadataFile, 'destination_sqlite')
  return new Set(
    configs.map(({ workspaceId, config }) =>
      nameOfTableFile({ workspaceId, file: String(config.file), path: '' }),
    ),
  )
}
