/**
 * Sealed segments have no side files: a segment in WAL mode needs a -shm (32 KiB) and a -wal to be opened, which a full
 * or read-only disk does not give. So a segment leaves WAL mode when nothing more is written to it:
 *
 *   rolled ──▶ waiting: its connection is kept, so that its -shm stays there for readers
 *                 │  each second and at the start: nobody reads it, and there is room for what is in its WAL
 *                 └──▶ sealed: all in the .db, no -wal, no -shm
 *
 * Leaving WAL mode is a change of two bytes of the first sector, with its journal in memory: it needs no disk space, and
 * a power cut leaves the one mode or the other. A crash leaves the segment waiting, with its WAL: the start goes on.
 */
import { existsSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { fsyncFile } from '../../platform/fsync.ts'
import { onFile } from '../../platform/storage-error.ts'
import { fileBytes, type SegmentName, segmentFile } from './layout.ts'
import { closeReadable, openReadable, readAt } from './readable-file.ts'
import { leaveWal } from './segment-file.ts'
import type { SegmentWriter } from './segment-writer.ts'
import { isBusy, isDamage, isDiskFull } from './sqlite-errors.ts'

/** The value for the WAL in the format versions of a database's header (bytes 18 and 19). */
const walVersion = 2

/** The end that a sealed segment states. */
export interface SealedEnd {
  clockMs: number
  lastSeq: number
}

interface Waiting {
  name: SegmentName
  /** Null: found by the start, which has no connection to keep. */
  writer: SegmentWriter | null
  /** Null: it is written down. */
  end: SealedEnd | null
}

export class Sealing {
  readonly #dir: string
  readonly #waiting: Waiting[] = []

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Seals it now, or later. No message may go to it any more. */
  seal(name: SegmentName, writer: SegmentWriter, end: SealedEnd): void {
    const waiting = { name, writer, end }
    if (!this.#trySeal(waiting)) this.#waiting.push(waiting)
  }

  /** At the start, before anything reads it. What its WAL holds is durable then. */
  sealFound(name: SegmentName): void {
    if (!hasWal(this.#dir, name)) return
    const waiting = { name, writer: null, end: null }
    if (this.#trySeal(waiting)) return
    const wal = `${segmentFile(this.#dir, name)}-wal`
    if (fileBytes(wal) > 0) fsyncFile(wal)
    this.#waiting.push(waiting)
  }

  /** The segments that are sealed now and were not before. A damaged one is left to whoever salvages it. */
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

  /** The segment is dropped, or another file takes its place. */
  forget(firstSeq: number): void {
    const at = this.#waiting.findIndex(({ name }) => name.firstSeq === firstSeq)
    if (at >= 0) closeAsFarAsPossible(this.#waiting.splice(at, 1)[0]?.writer ?? null)
  }

  close(): void {
    // A damaged one is found again by the start.
    this.retry(() => {})
    for (const { writer } of this.#waiting.splice(0)) closeAsFarAsPossible(writer)
  }

  /** After a failure: closes the connections that wait. Throws nothing. */
  abandon(): void {
    for (const { writer } of this.#waiting.splice(0)) writer?.abandon()
  }

  #trySeal(waiting: Waiting): boolean {
    const file = segmentFile(this.#dir, waiting.name)
    return onFile('sealing', file, () => trySeal(waiting, file))
  }
}

/** False: not now. */
function trySeal(waiting: Waiting, file: string): boolean {
  const { writer } = waiting
  if (writer === null) return sealAlone(file)
  if (waiting.end !== null && !markSealed(writer, waiting.end)) return false
  waiting.end = null
  if (!writer.leaveWal()) return false
  writer.close()
  return true
}

/** False: a full disk has no room for it yet. */
function markSealed(writer: SegmentWriter, { clockMs, lastSeq }: SealedEnd): boolean {
  try {
    writer.markSealed(clockMs, lastSeq)
    return true
  } catch (error) {
    if (!isDiskFull(error)) throw error
    writer.rollback()
    return false
  }
}

/** The WAL keeps what could not be moved. */
function closeAsFarAsPossible(writer: SegmentWriter | null): void {
  try {
    writer?.close()
  } catch (error) {
    if (!isDiskFull(error) && !isDamage(error)) throw error
  }
}

/** False while someone reads it or a full disk has no room. */
function sealAlone(file: string): boolean {
  const db = new Database(file, { fileMustExist: true, timeout: 0 })
  try {
    // Before anything is read: it needs no -shm then.
    db.pragma('locking_mode = EXCLUSIVE')
    db.pragma('synchronous = FULL')
    if (!leaveWal(db)) return false
  } catch (error) {
    if (isBusy(error)) return false
    throw error
  } finally {
    db.close()
  }
  // A file of the connections of an earlier run.
  rmSync(`${file}-shm`, { force: true })
  return true
}

/**
 * Only while this process has no connection to it: closing a file takes away every lock that the process holds on it.
 */
function hasWal(dir: string, name: SegmentName): boolean {
  const file = segmentFile(dir, name)
  // Even an empty one makes SQLite open the file with a -shm.
  if (existsSync(`${file}-wal`)) return true
  const readable = openReadable(file)
  try {
    // Where its header cannot be read, the next look at it tells that it is damaged.
    return readAt(readable, 0, 20)?.[18] === walVersion
  } finally {
    closeReadable(readable)
  }
}
