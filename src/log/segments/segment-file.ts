/**
 * One segment file: its tables, how it is created and how it is opened.
 *
 *   message  one row per message, `seq` is the rowid. `messages`, `records`, `bytes` are the running totals of its
 *            pipe up to and including this row, over the whole life of the pipe. Its index by pipe is created when
 *            the segment is sealed: see `PipeRows`.
 *   pipe     the pipes by a number that is valid only in this file, each with its position just before this segment,
 *            so that totals survive the removal of all older segments.
 *   segment  one row: the buffer's clock when it was started and, once sealed, at its last commit, with its last seq
 *            (compaction can remove the last message, but the next segment is named after it); and its
 *            identity: `previous_segment_id` is null for the first one.
 *   hole     ranges of seqs that retention has dropped between segments that are kept. Any other gap between two
 *            segments is a missing range.
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
  CREATE INDEX message_with_key ON message (seq) WHERE idempotency_key IS NOT NULL;
`

/** SQLite's FULL; WAL's own default is NORMAL, which loses the last commits in a power cut. */
const synchronousFull = 2

/** The WAL size at which SQLite checkpoints inside COMMIT. Only a safety net: see checkpoint(). */
const backstopWalBytes = 64 * 1024 * 1024

/** The format of every segment that this version writes, and the only format it reads. */
export const segmentFormat = 2

/** Both ends are included. */
export interface SeqRange {
  firstSeq: number
  lastSeq: number
}

export interface BasePosition {
  pipeId: string
  position: PipePosition
}

/** Identifies a segment. */
export interface SegmentIdentity {
  segmentId: string
  /** Null for a buffer that belongs to no data directory. */
  dataDirId: string | null
  epoch: number
  firstSeq: number
  previousSegmentId: string | null
}

/** `previousSegmentId` is null for the first segment. */
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
 * Creates an empty segment, complete and fsynced. Pipes get the numbers 1, 2, … in this order. A failure (disk full)
 * leaves no file. A power cut can undo its name until the directory is synced: `openForWriting` does that, and nothing can
 * be written to the segment before.
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
}

function writeEmptySegment(file: string, segment: NewSegment): void {
  const { pageBytes, identity, begunClockMs, bases, holes } = segment
  const db = new Database(file)
  try {
    // Takes effect only while the file is empty.
    db.pragma(`page_size = ${pageBytes}`)
    // With an exclusive lock SQLite needs no -shm, for which a full disk has no space.
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

/** Writes the only row of the table `segment`. */
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

/** Closing the connection would also move the WAL, but would not report a full or failing disk. */
function moveWal(db: Database.Database): void {
  const [row] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number; log: number }[]
  assert(row?.busy === 0 && row.log === 0, 'the WAL of a new segment is moved into it')
}

/** The rename moves only the main file, which must therefore be complete without a WAL. */
function assertComplete(file: string, pipeCount: number): void {
  const image = readFileSync(file)
  // Marks the copy as not being in WAL mode, because an image in memory cannot have a WAL.
  image.fill(1, 18, 20)
  const db = new Database(image, { readonly: true })
  try {
    const pipes = db.prepare('SELECT count(*) FROM pipe, segment').pluck().get()
    assert(pipes === pipeCount, 'a new segment is complete')
  } finally {
    db.close()
  }
}

/**
 * Opens a connection that writes: WAL mode, every commit fsynced. Creates the -wal and the -shm. The names of the segment
 * and of its -wal survive a power cut once this returns: where SQLite calls fdatasync, it calls that for the directory too,
 * and fdatasync promises nothing about names.
 */
export function openForWriting(dir: string, name: SegmentName): Database.Database {
  const file = segmentFile(dir, name)
  return onFile('opening', file, () => {
    const db = new Database(file, { fileMustExist: true })
    try {
      requireFull(db)
      fsyncDirectory(dir)
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
  return onFile('opening', file, () => {
    const db = new Database(file, { readonly: true, fileMustExist: true })
    keepTemporaryInMemory(db)
    return db
  })
}

/**
 * Messages that are missing between the rows of a salvaged segment are lost. Anywhere else a gap is damage, of an index
 * for example: the rows may still exist. A salvage therefore marks the new file, and compaction keeps the mark, so that
 * no segment is salvaged repeatedly for the same gap. The mark is SQLite's `user_version`.
 */
export function markSalvaged(db: Database.Database): void {
  db.pragma('user_version = 1')
}

export function isSalvaged(db: Database.Database): boolean {
  return db.pragma('user_version', { simple: true }) === 1
}

/** Otherwise SQLite sorts, and keeps temporary tables, in files outside the data directory. */
export function keepTemporaryInMemory(db: Database.Database): void {
  db.pragma('temp_store = MEMORY')
}

function requireFull(db: Database.Database): void {
  keepTemporaryInMemory(db)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  // On macOS, fsync does not reach the storage medium. No effect elsewhere.
  db.pragma('fullfsync = ON')
  db.pragma('checkpoint_fullfsync = ON')
  db.pragma(`wal_autocheckpoint = ${backstopWalBytes / pageBytesIn(db)}`)
}

/** The page size of the open file. */
export function pageBytesIn(db: Database.Database): number {
  return Number(db.pragma('page_size', { simple: true }))
}

/** In this build the first access to a WAL database resets `synchronous`, so call this only after a write. */
export function assertFull(db: Database.Database): void {
  assert(db.pragma('synchronous', { simple: true }) === synchronousFull, 'every commit must be fsynced')
}

/**
 * Moves the whole WAL into the database, durably, and leaves WAL mode. Returns false while the segment has a reader or a
 * full disk has no room. See sealing.ts.
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
