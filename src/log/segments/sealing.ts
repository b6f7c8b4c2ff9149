/**
 * Sealed segments have no side files. Opening a segment in WAL mode needs a -shm (32 KiB) and a -wal, which cannot be
 * created on a full or read-only disk. So a segment leaves WAL mode when it is complete. Its end is written before, and
 * then its index by pipe (`PipeRows`): of a large segment in a thread (index-threads.ts), because that takes a while.
 *
 *   rolled ──▶ waiting: its connection stays open, so that readers keep the -shm
 *                 │  each second and at the start: when it has its index and no reader, and there is room for the
 *                 │  content of its WAL
 *                 └──▶ sealed: all in the .db, no -wal, no -shm
 *
 * Until the thread has closed the file, the segment is neither dropped nor replaced: a connection that is closed later
 * would change a file that is being salvaged.
 *
 * Leaving WAL mode is a change of two bytes of the first sector, with its journal in memory: it needs no disk space,
 * and a power cut leaves one mode or the other. After a crash the segment waits with its WAL, and the start continues.
 */
import { existsSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { fsyncFile } from '../../platform/fsync.ts'
import { isStorageError, onFile } from '../../platform/storage-error.ts'
import type { IndexCreation, StartIndex } from './index-threads.ts'
import { fileBytes, pipeIndex, type SegmentName, segmentFile } from './layout.ts'
import { closeReadable, openReadable, readAt } from './readable-file.ts'
import { keepTemporaryInMemory, leaveWal } from './segment-file.ts'
import type { SegmentWriter } from './segment-writer.ts'
import { isBusy, isDamage, isDiskFull } from './sqlite-errors.ts'

/** The value that means WAL in the format versions of the database header (bytes 18 and 19). */
const walVersion = 2

/** The end that is written into a sealed segment. */
export interface SealedEnd {
  clockMs: number
  lastSeq: number
}

interface Waiting {
  name: SegmentName
  /** Null when the start found it and there is no open connection. */
  writer: SegmentWriter | null
  /** Null when the end is already written. */
  end: SealedEnd | null
  /** The index that a thread creates; null when none does. */
  index: IndexCreation | null
}

/** The index of a segment up to this size is created on the writer's thread: 6 ms for messages of 600 bytes. */
const smallBytes = 8 * 1024 * 1024

export class Sealing {
  readonly #dir: string
  /** Null: indexes are created on this thread. */
  #startIndex: StartIndex | null
  readonly #waiting: Waiting[] = []

  constructor(dir: string, startIndex: StartIndex | null = null) {
    this.#dir = dir
    this.#startIndex = startIndex
  }

  /** Seals the segment now or later. No message can go to it any more. */
  seal(name: SegmentName, writer: SegmentWriter, end: SealedEnd): void {
    const waiting = { name, writer, end, index: null }
    if (!this.#trySeal(waiting)) this.#waiting.push(waiting)
  }

  /** Called at the start, before the segment is read. Makes the content of its WAL durable. */
  sealFound(name: SegmentName): void {
    if (!hasWal(this.#dir, name)) return
    const waiting = { name, writer: null, end: null, index: null }
    if (this.#trySeal(waiting)) return
    const wal = `${segmentFile(this.#dir, name)}-wal`
    if (fileBytes(wal) > 0) fsyncFile(wal)
    this.#waiting.push(waiting)
  }

  /** Returns the segments that became sealed. Damaged ones are passed to `onDamaged`. */
  retry(onDamaged: (name: SegmentName, error: unknown) => void): SegmentName[] {
    const sealed: SegmentName[] = []
    for (const waiting of [...this.#waiting]) {
      try {
        if (!this.#trySeal(waiting)) continue
        sealed.push(waiting.name)
      } catch (error) {
        if (!isDamage(error)) throw error
        waiting.writer?.abandon()
        onDamaged(waiting.name, error)
      }
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
    }
    return sealed
  }

  /** The segment is dropped or replaced. */
  forget(firstSeq: number): void {
    const at = this.#waiting.findIndex(({ name }) => name.firstSeq === firstSeq)
    const [waiting] = at < 0 ? [] : this.#waiting.splice(at, 1)
    waiting?.index?.wait()
    closeAsFarAsPossible(waiting?.writer ?? null)
  }

  close(): void {
    this.#startIndex = null
    for (const { index } of this.#waiting) index?.wait()
    // The next start finds a damaged segment again.
    this.retry(() => {})
    for (const { writer } of this.#waiting.splice(0)) closeAsFarAsPossible(writer)
  }

  /** After a failure: closes the connections that wait. Throws nothing. */
  abandon(): void {
    for (const { writer } of this.#waiting.splice(0)) writer?.abandon()
  }

  #trySeal(waiting: Waiting): boolean {
    const file = segmentFile(this.#dir, waiting.name)
    return onFile('sealing', file, () => this.#sealNow(waiting, file))
  }

  /** Returns false when it is not possible now. */
  #sealNow(waiting: Waiting, file: string): boolean {
    const { writer, end } = waiting
    if (writer === null) return sealAlone(file)
    if (end !== null && !fits(writer, () => writer.markSealed(end.clockMs, end.lastSeq))) return false
    waiting.end = null
    if (!this.#hasIndex(waiting, writer) || !writer.leaveWal()) return false
    writer.close()
    return true
  }

  #hasIndex(waiting: Waiting, writer: SegmentWriter): boolean {
    if (writer.hasPipeIndex()) return true
    if (waiting.index === null && this.#startIndex !== null && writer.bytes() > smallBytes) {
      waiting.index = this.#startIndex(waiting.name)
    }
    const { isRunning = false, failure = null } = waiting.index ?? {}
    // After a failed write or fsync nothing may be tried again.
    if (isStorageError(failure) && !isDiskFull(failure) && !isBusy(failure)) throw failure
    return !isRunning && fits(writer, () => writer.createPipeIndex())
  }
}

/** Returns false when a full disk has no room for what `write` writes. */
function fits(writer: SegmentWriter, write: () => void): boolean {
  try {
    write()
    return true
  } catch (error) {
    if (!isDiskFull(error) && !isBusy(error)) throw error
    writer.rollback()
    return false
  }
}

/** The part that could not be moved stays in the WAL. */
function closeAsFarAsPossible(writer: SegmentWriter | null): void {
  try {
    writer?.close()
  } catch (error) {
    if (!isDiskFull(error) && !isDamage(error)) throw error
  }
}

/** Returns false while the segment has a reader or a full disk has no room. */
function sealAlone(file: string): boolean {
  const db = new Database(file, { fileMustExist: true, timeout: 0 })
  try {
    // Set before the first read, so that no -shm is needed.
    db.pragma('locking_mode = EXCLUSIVE')
    db.pragma('synchronous = FULL')
    keepTemporaryInMemory(db)
    db.exec(pipeIndex)
    if (!leaveWal(db)) return false
  } catch (error) {
    if (isBusy(error) || isDiskFull(error)) return false
    throw error
  } finally {
    db.close()
  }
  // Left by connections of an earlier run.
  rmSync(`${file}-shm`, { force: true })
  return true
}

/**
 * Call only while this process has no connection to the file: closing a file descriptor releases all locks that the
 * process holds on the file.
 */
function hasWal(dir: string, name: SegmentName): boolean {
  const file = segmentFile(dir, name)
  // Even an empty WAL makes SQLite open the file with a -shm.
  if (existsSync(`${file}-wal`)) return true
  const readable = openReadable(file)
  try {
    // If the header cannot be read, the next access to the segment reports the damage.
    return readAt(readable, 0, 20)?.[18] === walVersion
  } finally {
    closeReadable(readable)
  }
}
