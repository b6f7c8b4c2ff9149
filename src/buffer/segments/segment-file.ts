/**
 * One segment file: its tables, making it and writing it.
 *
 *   message  one row a message, `seq` is the rowid. `messages`, `records`, `bytes` are the running totals of its
 *            pipe up to and including this row, over the whole life of the pipe.
 *   pipe     the pipes by a small number, valid in this file only, each with its position just before this segment:
 *            so totals survive the unlinking of every older segment.
 *   segment  one row: the buffer's clock when it was begun and, once sealed, at its last commit.
 */

import assert from 'node:assert'
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { PipePosition } from '../buffer.ts'
import type { FramedMessage } from '../frame.ts'
import { fsyncDirectory, segmentFile, unfinishedName } from './layout.ts'

const schema = `
  CREATE TABLE segment (begun_clock_ms REAL NOT NULL, last_clock_ms REAL) STRICT;
  CREATE TABLE pipe (
    no INTEGER PRIMARY KEY, pipe_id TEXT NOT NULL UNIQUE,
    base_seq INTEGER NOT NULL, base_messages INTEGER NOT NULL, base_records INTEGER NOT NULL, base_bytes INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE message (
    seq INTEGER PRIMARY KEY, pipe INTEGER NOT NULL, msg_id TEXT NOT NULL, received_ms REAL NOT NULL,
    record_count INTEGER NOT NULL, crc INTEGER NOT NULL,
    messages INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
    idempotency_key TEXT, body BLOB NOT NULL
  ) STRICT;
  CREATE INDEX message_by_pipe ON message (pipe);
  CREATE INDEX message_with_key ON message (seq) WHERE idempotency_key IS NOT NULL;
`

/** SQLite's FULL; WAL's own default is NORMAL, which loses the last commits in a power cut. */
const synchronousFull = 2

/** The pages of a WAL after which SQLite checkpoints by itself, inside COMMIT: a backstop only, see checkpoint(). */
const backstopWalPages = 16_384

export interface BasePosition {
  pipeId: string
  position: PipePosition
}

/** The segment being written. Everything between begin and commit is one transaction. */
export interface SegmentWriter {
  readonly firstSeq: number
  begin(): void
  insertPipe(no: number, pipeId: string): void
  insertMessage(seq: number, pipeNo: number, message: FramedMessage, totals: PipePosition): void
  commit(): void
  /** After any failure; does nothing when SQLite has rolled back by itself. */
  rollback(): void
  /** Size of the database with everything in its WAL. */
  bytes(): number
  /** Moves the WAL into the database as far as no reader needs it. Waits for nobody. */
  checkpoint(): void
  /** Writes down the clock of the last commit; part of sealing. */
  markSealed(lastClockMs: number): void
  /** Moves all of the WAL into the database and closes it. What a reader keeps busy stays in the WAL, just as safe. */
  close(): void
}

/**
 * Makes an empty segment, complete and fsynced under its name. Pipes get the numbers 1, 2, … in the order given.
 * A failure (disk full) leaves nothing.
 */
export function createSegment(
  dir: string,
  firstSeq: number,
  begunClockMs: number,
  bases: readonly BasePosition[],
): void {
  const unfinished = path.join(dir, unfinishedName)
  try {
    writeEmptySegment(unfinished, begunClockMs, bases)
    fsyncFile(unfinished)
    renameSync(unfinished, segmentFile(dir, firstSeq))
  } catch (error) {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(unfinished + suffix, { force: true })
    throw error
  }
  fsyncDirectory(dir)
}

function writeEmptySegment(file: string, begunClockMs: number, bases: readonly BasePosition[]): void {
  const db = new Database(file)
  try {
    requireFull(db)
    db.exec('BEGIN IMMEDIATE')
    db.exec(schema)
    db.prepare('INSERT INTO segment (begun_clock_ms) VALUES (?)').run(begunClockMs)
    const insert = db.prepare('INSERT INTO pipe VALUES (?, ?, ?, ?, ?, ?)')
    bases.forEach(({ pipeId, position }, index) => {
      insert.run(index + 1, pipeId, position.seq, position.messages, position.records, position.bytes)
    })
    db.exec('COMMIT')
    assertFull(db)
  } finally {
    // The last connection: checkpoints and removes the WAL, so the rename moves all there is.
    db.close()
  }
}

function fsyncFile(file: string): void {
  const fd = openSync(file, 'r+')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** A connection that may write: WAL, every commit fsynced. */
export function openForWriting(dir: string, firstSeq: number): Database.Database {
  const db = new Database(segmentFile(dir, firstSeq), { fileMustExist: true })
  requireFull(db)
  return db
}

function requireFull(db: Database.Database): void {
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  // macOS: fsync alone does not reach the platter. No effect elsewhere.
  db.pragma('fullfsync = ON')
  db.pragma('checkpoint_fullfsync = ON')
  db.pragma(`wal_autocheckpoint = ${backstopWalPages}`)
}

/** The first access of a WAL database resets `synchronous` in this build: only a look after a write counts. */
function assertFull(db: Database.Database): void {
  assert(db.pragma('synchronous', { simple: true }) === synchronousFull, 'every commit must be fsynced')
}

/** Wraps an open connection; it belongs to the wrapper from here on. */
export function segmentWriter(db: Database.Database, firstSeq: number): SegmentWriter {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const insertPipe = db.prepare('INSERT INTO pipe VALUES (?, ?, 0, 0, 0, 0)')
  const insertMessage = db.prepare('INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const pageCount = db.prepare('PRAGMA page_count').pluck()
  const pageSize = Number(db.pragma('page_size', { simple: true }))
  let isFullKnown = false
  return {
    firstSeq,
    begin: () => void begin.run(),
    insertPipe: (no, pipeId) => void insertPipe.run(no, pipeId),
    insertMessage(seq, pipeNo, message, { messages, records, bytes }) {
      const { msgId, receivedMs, recordCount, crc, idempotencyKey, body } = message
      insertMessage.run(
        seq,
        pipeNo,
        msgId,
        receivedMs,
        recordCount,
        crc,
        messages,
        records,
        bytes,
        idempotencyKey,
        body,
      )
    },
    commit() {
      commit.run()
      if (isFullKnown) return
      assertFull(db)
      isFullKnown = true
    },
    rollback() {
      if (db.inTransaction) db.exec('ROLLBACK')
    },
    bytes: () => Number(pageCount.get()) * pageSize,
    checkpoint: () => void db.pragma('wal_checkpoint(PASSIVE)'),
    markSealed: (lastClockMs) => void db.prepare('UPDATE segment SET last_clock_ms = ?').run(lastClockMs),
    close() {
      try {
        db.pragma('wal_checkpoint(TRUNCATE)')
      } finally {
        db.close()
      }
    },
  }
}
