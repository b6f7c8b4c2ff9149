/**
 * The copy of a metadata file that is kept before its tables are migrated. Migrations only go forward, and the earlier
 * version cannot read the new tables (docs/upgrading.md says how to go back to the copy).
 *
 *   before-upgrade/metadata-format-18.db      next to the file: one file without a WAL, readable by its owner only
 *   before-upgrade/metadata-format-18.PID.tmp the unfinished copy
 *
 * The state after a crash, and the action of the next start:
 *
 *   0 stop recording changes       no record of changes: one begins with the next replica, and a new copy with it
 *   1 write the .tmp, fsync it     a .tmp: removed once it is an hour old; the copy is made again
 *   2 rename it, fsync the folder  the copy of an unchanged file: it is replaced
 *   3 migrate, in one transaction  nothing has changed, or everything has: then no copy is made
 */
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import type Database from 'better-sqlite3'
import { isNoSpace, StorageUnavailableError } from '../../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { bytes, hourMs } from '../../platform/quantities.ts'
import { inWords, onFile } from '../../platform/storage-error.ts'
import { oldestFormat } from '../migrations.ts'
import { readSqliteFile } from './file.ts'
import { stopRecordingRowChanges } from './row-change-triggers.ts'

/** The file holds parked records and can have a gigabyte of them, so only the copies of two upgrades are kept. */
const copiesKept = 2
const copyName = /^metadata-format-\d+\.db$/
const unfinishedName = /\.tmp(-journal)?$/

export function copyFolder(file: string): string {
  return path.join(path.dirname(file), 'before-upgrade')
}

/**
 * Copies a file that an earlier version has written, and returns the path of the copy. Null: the file is empty, up to
 * date, or older than the formats that this version opens. Throws StorageUnavailableError if there is no room for the
 * copy: then nothing is migrated.
 */
export function keepCopy(database: Database.Database, newestFormat: number, now: number): string | null {
  const format = onFile('opening', database.name, () => formatOf(database))
  if (format < oldestFormat || format >= newestFormat) return null
  const folder = copyFolder(database.name)
  const copy = path.join(folder, `metadata-format-${format}.db`)
  const unfinished = path.join(folder, `metadata-format-${format}.${process.pid}.tmp`)
  try {
    // Migrations change tables that triggers of the recording refer to. The copy must not have them either: a file that is
    // put back would continue a recording that has missed changes.
    stopRecordingRowChanges(database)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    removeAbandoned(folder, now)
    rmSync(unfinished, { force: true })
    // SQLite accepts an existing empty file as the target and keeps its mode.
    closeSync(openSync(unfinished, 'wx', 0o600))
    database.prepare('VACUUM INTO ?').run(unfinished)
    if (readSqliteFile(unfinished, formatOf) !== format) {
      // Another process has migrated the file in the meantime.
      rmSync(unfinished)
      return null
    }
    fsyncFile(unfinished)
    renameSync(unfinished, copy)
    fsyncDirectory(folder)
    fsyncDirectory(path.dirname(folder))
  } catch (error) {
    rmSync(unfinished, { force: true })
    if (!isNoSpace(error)) throw inWords(error, 'copying before an upgrade', database.name)
    throw new StorageUnavailableError(
      `no room for the copy of ${database.name} (${bytes(statSync(database.name).size)}) that pipectl keeps before an upgrade`,
      error,
    )
  }
  removeOldest(folder, path.basename(copy))
  return copy
}

/** Removes all copies, also unfinished ones: they have the parked records of that time. Returns their number. */
export function removeCopies(file: string): number {
  const folder = copyFolder(file)
  if (!existsSync(folder)) return 0
  const copies = [...files(folder, copyName), ...files(folder, unfinishedName)]
  for (const { name } of copies) rmSync(path.join(folder, name), { force: true })
  fsyncDirectory(folder)
  return copies.length
}

/** Returns the newest migration that has run; 0: none. Changes nothing. */
export function formatOf(database: Database.Database): number {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'metadata_migrations'").get()
  if (table === undefined) return 0
  return Number(database.prepare('SELECT max(number) FROM metadata_migrations').pluck().get())
}

function removeAbandoned(folder: string, now: number): void {
  for (const { name, madeMs } of files(folder, unfinishedName))
    if (madeMs < now - hourMs) rmSync(path.join(folder, name), { force: true })
}

/** Keeps the newest copies, and always the one just created, even if the clock has jumped. */
function removeOldest(folder: string, made: string): void {
  const earlier = files(folder, copyName)
    .filter(({ name }) => name !== made)
    .sort((a, b) => b.madeMs - a.madeMs)
  for (const { name } of earlier.slice(copiesKept - 1)) rmSync(path.join(folder, name), { force: true })
}

/** Ignores links and folders with a matching name: pipectl did not create them. */
function files(folder: string, isOne: RegExp): { name: string; madeMs: number }[] {
  return readdirSync(folder)
    .filter((name) => isOne.test(name))
    .flatMap((name) => {
      const found = lstatSync(path.join(folder, name), { throwIfNoEntry: false })
      return found?.isFile() ? [{ name, madeMs: found.mtimeMs }] : []
    })
}
