/**
 * One segment file: its tables, making it and opening it.
 *
 *   message  one row per message, `seq` is the rowid. `messages`, `records`, `bytes` are the running totals of its
 *            pipe up to and including this row, over the whole life of the pipe.
 *   pipe     the pipes by a small number, valid in this file only, each with its position just before this segment:
 *            so totals survive the unlinking of every older segment.
 *   segment  one row: the buffer's clock when it was begun and, once sealed, at its last commit, with its last seq
 *            (compaction may remove the last message: the next segment is named after it all the same); and its
 *            identity: `previous_segment_id` is null for the first one.
 *   hole     ranges of seqs that retention has dropped between segments that are kept. Any other range that is not
 *            there between two segments is missing.
 */
import assert from 'node:assert'
import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { onFile } from '../../platform/storage-error.ts'
import type { BufferIdentity } from '../buffer.ts'
import { type SegmentName, segmentFile, unfinishedName } from './layout.ts'
import type { PipePosition } from './position.ts'
import { isBusy, isDiskFull, UnknownFormatError } from './sqlite-errors.ts'

export const segmentSchema = `
  CREATE TABLE segment (
    begun_clock_ms REAL NOT NULL, last_clock_ms REAL, last_seq INTEGER,
    format INTEGER NOT NULL, segment_id TEXT NOT NULL, data_dir_id TEXT, epoch INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, previous_segment_id TEXT
  ) STRICT;
  CREATE TABLE hole (first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL) STRICT;
  CREATE TABLE pipe (
    no INTEGER PRIMARY KEY, pipe_id TEXT NOT NULL UNIQUE,
    base_seq INTEGER NOT NULL, base_messages INTEGER NOT NULL, base_records INTEGER NOT NULL, base_bytes INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE message (
    seq INTEGER PRIMARY KEY, pipe INTEGER NOT NULL, msg_id TEXT NOT NULL, received_ms REAL NOT NULL,
    record_count INTEGER NOT NULL, crc INTEGER NOT NULL,
    messages INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
    idempotency_key TEXT, body BLOB NOT NULL, body_hash TEXT
  ) STRICT;
  CREATE INDEX message_by_pipe ON message (pipe);
  CREATE INDEX message_with_key ON message (seq) WHERE idempotency_key IS NOT NULL;
`

/** SQLite's FULL; WAL's own default is NORMAL, which loses the last commits in a power cut. */
const synchronousFull = 2

/** The size of a WAL at which SQLite checkpoints by itself, inside COMMIT: a backstop only, see checkpoint(). */
const backstopWalBytes = 64 * 1024 * 1024

/** The format of every segment that this version writes, and the only one that it reads. */
export const segmentFormat = 2

/** Both ends belong to it. */
export interface SeqRange {
  firstSeq: number
  lastSeq: number
}

export interface BasePosition {
  pipeId: string
  position: PipePosition
}

/** Who a segment is. */
export interface SegmentIdentity {
  segmentId: string
  /** Null: of a buffer that belongs to no data directory. */
  dataDirId: string | null
  epoch: number
  firstSeq: number
  previousSegmentId: string | null
}

/** `previousSegmentId`: null for the first. */
export function newIdentity(
  identity: BufferIdentity | null,
  firstSeq: number,
  previousSegmentId: string | null,
): SegmentIdentity {
  const { dataDirId, epoch } = identity ?? { dataDirId: null, epoch: 1 }
  return { segmentId: randomUUID(), dataDirId, epoch, firstSeq, previousSegmentId }
}

export interface NewSegment {
  pageBytes: number
  identity: SegmentIdentity
  begunClockMs: number
  bases: readonly BasePosition[]
  holes: readonly SeqRange[]
}

/**
 * Makes an empty segment, complete and fsynced under its name. Pipes get the numbers 1, 2, … in the order given.
 * A failure (disk full) leaves nothing.
 */
export function createSegment(dir: string, segment: NewSegment): void {
  const unfinished = path.join(dir, unfinishedName)
  const file = segmentFile(dir, { firstSeq: segment.identity.firstSeq, generation: 0 })
  try {
    onFile('making', file, () => {
      writeEmptySegment(unfinished, segment)
      fsyncFile(unfinished)
      assertComplete(unfinished, segment.bases.length)
      renameSync(unfinished, file)
    })
  } catch (error) {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(unfinished + suffix, { force: true })
    throw error
  }
  fsyncDirectory(dir)
}

function writeEmptySegment(file: string, segment: NewSegment): void {
  const { pageBytes, identity, begunClockMs, bases, holes } = segment
  const db = new Database(file)
  try {
    // Counts only before anything is in the file.
    db.pragma(`page_size = ${pageBytes}`)
    // Alone with its file: it needs no -shm, for which a full disk has no space.
    db.pragma('locking_mode = EXCLUSIVE')
    requireFull(db)
    db.exec('BEGIN IMMEDIATE')
    db.exec(segmentSchema)
    insertSegmentRow(db, identity, { begunClockMs, lastClockMs: null, lastSeq: null })
    insertHoles(db, holes)
    const insert = db.prepare('INSERT INTO pipe VALUES (?, ?, ?, ?, ?, ?)')
    bases.forEach(({ pipeId, position }, index) => {
      insert.run(index + 1, pipeId, position.seq, position.messages, position.records, position.bytes)
    })
    db.exec('COMMIT')
    assertFull(db)
    moveWal(db)
  } finally {
    db.close()
  }
}

export interface SegmentEnds {
  begunClockMs: number
  lastClockMs: number | null
  lastSeq: number | null
}

/** The one row of its table `segment`. */
export function insertSegmentRow(db: Database.Database, identity: SegmentIdentity, ends: SegmentEnds): void {
  const { segmentId, dataDirId, epoch, firstSeq, previousSegmentId } = identity
  const { begunClockMs, lastClockMs, lastSeq } = ends
  db.prepare('INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)').run(
    ...[begunClockMs, lastClockMs, lastSeq, segmentFormat],
    ...[segmentId, dataDirId, epoch, firstSeq, previousSegmentId],
  )
}

export function insertHoles(db: Database.Database, holes: readonly SeqRange[]): void {
  const insert = db.prepare('INSERT INTO hole VALUES (?, ?)')
  for (const { firstSeq, lastSeq } of holes) insert.run(firstSeq, lastSeq)
}

/** Closing a connection would move the WAL too, but says nothing when the disk is full or fails. */
function moveWal(db: Database.Database): void {
  const [row] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number; log: number }[]
  assert(row?.busy === 0 && row.log === 0, 'the WAL of a new segment is moved into it')
}

/** The rename moves the file alone: it must hold its tables without any WAL. */
function assertComplete(file: string, pipeCount: number): void {
  const image = readFileSync(file)
  // Says "no WAL" where the header says that there may be one: an image in memory cannot have one.
  image.fill(1, 18, 20)
  const db = new Database(image, { readonly: true })
  try {
    const pipes = db.prepare('SELECT count(*) FROM pipe, segment').pluck().get()
    assert(pipes === pipeCount, 'a new segment is complete')
  } finally {
    db.close()
  }
}

/** A connection that may write: WAL, every commit fsynced. Makes the -wal and the -shm. */
export function openForWriting(dir: string, name: SegmentName): Database.Database {
  const file = segmentFile(dir, name)
  return onFile('opening', file, () => {
    const db = new Database(file, { fileMustExist: true })
    try {
      requireFull(db)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  })
}

export function requireKnownFormat(db: Database.Database): void {
  const format = db.prepare('SELECT format FROM segment').pluck().get()
  if (format !== segmentFormat)
    throw new UnknownFormatError(
      `${db.name}: a segment of format ${format}, which this version does not know`,
    )
}

export function openReadOnly(dir: string, name: SegmentName): Database.Database {
  const file = segmentFile(dir, name)
  return onFile('opening', file, () => new Database(file, { readonly: true, fileMustExist: true }))
}

/**
 * Messages that are missing between the rows of a salvaged segment are lost. Anywhere else a gap is damage, of an
 * index for example: the rows may still exist. A salvage therefore leaves a mark in the new file, and compaction
 * carries it on: no segment is salvaged again and again for the same gap. The mark is in the number that SQLite
 * reserves for its users.
 */
export function markSalvaged(db: Database.Database): void {
  db.pragma('user_version = 1')
}

export function isSalvaged(db: Database.Database): boolean {
  return db.pragma('user_version', { simple: true }) === 1
}

function requireFull(db: Database.Database): void {
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  // macOS: fsync alone does not reach the platter. No effect elsewhere.
  db.pragma('fullfsync = ON')
  db.pragma('checkpoint_fullfsync = ON')
  db.pragma(`wal_autocheckpoint = ${backstopWalBytes / pageBytesIn(db)}`)
}

/** Size of a page of the file that is open. */
export function pageBytesIn(db: Database.Database): number {
  return Number(db.pragma('page_size', { simple: true }))
}

/** The first access of a WAL database resets `synchronous` in this build: only a look after a write counts. */
export function assertFull(db: Database.Database): void {
  assert(db.pragma('synchronous', { simple: true }) === synchronousFull, 'every commit must be fsynced')
}

/**
 * All that is in the WAL moves into the database, durably, which leaves WAL mode. False while someone reads
 * it or a full disk has no room. See sealing.ts.
 */
export function leaveWal(db: Database.Database): boolean {
  try {
    db.pragma('busy_timeout = 0')
    const [row] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    return row?.busy === 0 && db.pragma('journal_mode = MEMORY', { simple: true }) === 'memory'
  } catch (error) {
    if (isBusy(error) || isDiskFull(error)) return false
    throw error
  }
}
