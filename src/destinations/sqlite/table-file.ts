/**
 * An open table file, and the promises of a commit: durable, and in the file that has the name.
 *
 *   open     the file exists and is no link · WAL, synchronous=FULL · commits that a killed process may not have synced are
 *            made durable before their positions are believed
 *   begin    BEGIN IMMEDIATE: the transaction waits for the lock here and never in the middle
 *   commit   fsync of the WAL · the name still belongs to the open file. If the user deleted or replaced it meanwhile, the
 *            commit is in a file that no one can read: it is an error, and the batch is repeated
 *
 * The inode decides whether a file was replaced: of the database, and of its WAL, which has the newest commits.
 */
import { existsSync, lstatSync, statfsSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { fsyncFile } from '../../platform/fsync.ts'
import { DeliveryError } from '../driver.ts'
import { isBusy, isIoError } from './errors.ts'
import { isTableFile } from './files.ts'
import { noFile } from './table.ts'

const MiB = 1024 * 1024
/** Short: the thread serves other lanes, too. The lane repeats the batch. */
export const busyTimeoutMs = 1_000
const cacheKiB = 2_048
/** The WAL is cut to this size when it begins again. A reader with an old snapshot lets it grow. */
const keptWalBytes = 16 * MiB
/** A row takes more space than its record: the WAL, indexes, and the file itself. */
const bytesPerRecordByte = 4

export interface FileLimits {
  sizeLimitMib: number
  minFreeBytes: number
}

/** Files of which a read or write failed: their WAL is believed only after all of it was written again. */
const unreliable = new Set<string>()

export class OpenTableFile {
  readonly database: Database.Database
  readonly #path: string
  readonly #identity: string

  /** Throws a DeliveryError, or the error of SQLite. */
  constructor(file: string) {
    this.#path = file
    if (!isTableFile(file)) throw noFile(nameOf(file))
    const before = inodeOf(file)
    this.database = new Database(file, { fileMustExist: true, timeout: busyTimeoutMs })
    try {
      if (this.database.pragma('journal_mode = WAL', { simple: true }) !== 'wal') throw withoutWal(file)
      this.database.pragma('synchronous = FULL')
      this.database.pragma('foreign_keys = ON')
      this.database.pragma(`cache_size = -${cacheKiB}`)
      this.database.pragma(`journal_size_limit = ${keptWalBytes}`)
      makeWalDurable(this.database, file)
      this.#identity = identityOf(file)
      if (before !== inodeOf(file)) throw replaced(file)
    } catch (error) {
      this.database.close()
      throw error
    }
  }

  /** False: the name belongs to another file or to none. */
  get isCurrent(): boolean {
    return identityOf(this.#path) === this.#identity
  }

  /** Throws a transient `table_file_full`, `wal_full` or `disk_nearly_full` if there is no space for a batch of this size. */
  requireSpace({ sizeLimitMib, minFreeBytes }: FileLimits, batchBytes: number): void {
    const { bavail, bsize } = statfsSync(path.dirname(this.#path))
    if (bavail * bsize < minFreeBytes + batchBytes * bytesPerRecordByte) throw diskNearlyFull(this.#path)
    const pageBytes = this.#number('page_size')
    this.database.pragma(`max_page_count = ${Math.max(1, Math.floor((sizeLimitMib * MiB) / pageBytes))}`)
    if (this.#walBytes() <= Math.max(sizeLimitMib * MiB, keptWalBytes)) return
    this.database.pragma('wal_checkpoint(TRUNCATE)')
    if (this.#walBytes() > 0) throw walFull(this.#path)
  }

  /** Changes with the schema of the file. */
  get schemaVersion(): number {
    return this.#number('schema_version')
  }

  begin(): void {
    this.database.exec('BEGIN IMMEDIATE')
  }

  commit(): void {
    this.database.exec('COMMIT')
    if (!this.isCurrent) throw replaced(this.#path)
  }

  /** SQLite ends the transaction itself after some errors. */
  rollback(): void {
    if (this.database.inTransaction) this.database.exec('ROLLBACK')
  }

  /** The error of SQLite for lack of space, with the limit that was reached. */
  fullError({ sizeLimitMib }: FileLimits): DeliveryError {
    const { bavail, bsize } = statfsSync(path.dirname(this.#path))
    return bavail * bsize < MiB ? diskNearlyFull(this.#path) : fileFull(this.#path, sizeLimitMib)
  }

  /** After an error of the disk, a commit can be in the memory of the system only. */
  distrust(error: unknown): void {
    if (isIoError(error)) unreliable.add(this.#path)
  }

  close(): void {
    try {
      this.database.close()
    } catch {
      // SQLite moves the WAL into the file when it closes. If it cannot, the next opening does.
    }
  }

  #number(pragma: string): number {
    return Number(this.database.pragma(pragma, { simple: true }))
  }

  #walBytes(): number {
    return lstatSync(walOf(this.#path), { throwIfNoEntry: false })?.size ?? 0
  }
}

/**
 * A process that was killed can leave a commit that it wrote but did not sync: it is read, but a power cut would lose it.
 * So the WAL is moved into the file, which syncs both. While a reader keeps an old snapshot open, that is impossible, and
 * the WAL itself is synced. That is not enough after a failed sync, which the system reports only once: then the lane waits.
 */
function makeWalDurable(database: Database.Database, file: string): void {
  if (!isWalMoved(database) && existsSync(walOf(file))) {
    if (unreliable.has(file)) throw walFull(file)
    fsyncFile(walOf(file))
    return
  }
  unreliable.delete(file)
}

function isWalMoved(database: Database.Database): boolean {
  try {
    const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    return result?.busy === 0
  } catch (error) {
    if (isBusy(error)) return false
    throw error
  }
}

function walOf(file: string): string {
  return `${file}-wal`
}

function identityOf(file: string): string {
  return `${inodeOf(file)} ${inodeOf(walOf(file))}`
}

function inodeOf(file: string): string {
  const found = lstatSync(file, { throwIfNoEntry: false, bigint: true })
  return found === undefined ? 'none' : `${found.dev}:${found.ino}`
}

function nameOf(file: string): string {
  return path.basename(file, '.sqlite')
}

function replaced(file: string): DeliveryError {
  const message = `${path.basename(file)} or its -wal file was deleted or replaced while it was open. The batch is stored again in the file that is there now.`
  return new DeliveryError('transient', 'table_file_replaced', message)
}

function withoutWal(file: string): DeliveryError {
  const message = `${path.basename(file)} cannot be switched to WAL mode, which its disk must support: network file systems do not.`
  return new DeliveryError('permanent', 'no_wal', message)
}

function fileFull(file: string, sizeLimitMib: number): DeliveryError {
  const message = `${path.basename(file)} has reached its limit of ${sizeLimitMib} MiB: delete rows, or raise size_limit_mib.`
  return new DeliveryError('transient', 'table_file_full', message)
}

function walFull(file: string): DeliveryError {
  const message = `${path.basename(file)}-wal cannot be moved into its file, because another program keeps a transaction open: end it.`
  return new DeliveryError('transient', 'wal_full', message)
}

function diskNearlyFull(file: string): DeliveryError {
  const message = `The disk of ${path.basename(file)} has no space for the batch. The space of buffer.min_free_bytes is kept to accept messages: free some space.`
  return new DeliveryError('transient', 'disk_nearly_full', message)
}
