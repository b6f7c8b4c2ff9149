/** Writes to a segment: messages in transactions, checkpoints, and its final facts when it is sealed. */
import type Database from 'better-sqlite3'
import { fsyncDirectory } from '../../platform/fsync.ts'
import { type Frame, type FramedMessage, readFrame } from '../frame.ts'
import type { PipeKey } from '../key-store.ts'
import {
  hasPipeIndex,
  insertMessage,
  type MessageRow,
  onDisk,
  pipeIndex,
  rowChecksum,
  type SegmentName,
  unlinkSegment,
} from './layout.ts'
import { type PipePosition, type PipeTable, zeroPosition } from './position.ts'
import { readSegmentContent, type SegmentContent } from './segment-facts.ts'
import {
  assertFull,
  createSegment,
  insertHoles,
  leaveWal,
  markSalvaged,
  type NewSegment,
  openForWriting,
  pageBytesIn,
  type SeqRange,
} from './segment-file.ts'
import { isDiskFull } from './sqlite-errors.ts'

/**
 * Creates a segment. When this returns, everything that is needed to write to it exists; otherwise there is no new
 * segment and the previous one continues.
 */
export function beginSegment(dir: string, segment: NewSegment): SegmentWriter {
  createSegment(dir, segment)
  const name = { firstSeq: segment.identity.firstSeq, generation: 0 }
  try {
    return openSegmentWriter(dir, name)
  } catch (error) {
    unlinkSegment(dir, name)
    // Later commits to the old segment use seqs that the new one's name would claim.
    fsyncDirectory(dir)
    throw error
  }
}

/** Opens an existing segment. */
export function openSegmentWriter(dir: string, name: SegmentName): SegmentWriter {
  const db = openForWriting(dir, name)
  try {
    return new SegmentWriter(db, name.firstSeq)
  } catch (error) {
    db.close()
    throw error
  }
}

/** The segment being written, over an open connection that it owns. Everything from begin to commit is one transaction. */
export class SegmentWriter {
  readonly firstSeq: number
  /** For error messages. */
  readonly file: string
  readonly #db: Database.Database
  readonly #begin: Database.Statement
  readonly #commit: Database.Statement
  readonly #insertPipe: Database.Statement
  readonly #insertMessage: Database.Statement
  readonly #pageCount: Database.Statement
  readonly #walFrames: Database.Statement
  readonly #pageSize: number
  #isFullKnown = false
  /** Duration of the last COMMIT, which wrote its pages to the WAL and synced them. */
  commitMs = 0
  /** WAL frames that a reader kept the last checkpoint from moving. */
  #keptFrames = 0

  constructor(db: Database.Database, firstSeq: number) {
    this.firstSeq = firstSeq
    this.file = db.name
    this.#db = db
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#insertPipe = db.prepare('INSERT INTO pipe VALUES (?, ?, ?, ?, ?, ?)')
    this.#insertMessage = db.prepare(insertMessage)
    this.#pageCount = db.prepare('PRAGMA page_count').pluck()
    // NOOP moves nothing and takes 2 µs. Available since SQLite 3.51.0 (see sqlite-version.ts).
    this.#walFrames = db.prepare('PRAGMA wal_checkpoint(NOOP)').raw()
    this.#pageSize = pageBytesIn(db)
  }

  begin(): void {
    this.#begin.run()
  }

  /** `base` is the position before the pipe's first message in this segment. */
  insertPipe(no: number, pipeId: string, base: PipePosition = zeroPosition): void {
    this.#insertPipe.run(no, pipeId, base.seq, base.messages, base.records, base.bytes)
  }

  /** Inserts a row of another copy of the log with the checksum that it has. */
  insertRow(row: MessageRow): void {
    this.#insertMessage.run(...row)
  }

  insertMessage(seq: number, pipeNo: number, message: FramedMessage, totals: PipePosition): void {
    const { pipeId, msgId, receivedMs, recordCount, idempotencyKey, bodyHash, body } = message
    const { messages, records, bytes } = totals
    // One plain literal: spreads in it made an object of 1 KB, and appends by single records a quarter slower.
    // biome-ignore format: the order of the columns, at a glance.
    const header = {
      seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes, idempotencyKey, bodyHash,
    }
    const crc = rowChecksum(header, message.crc)
    // Row by row: statements of 8 or 20 rows, and one without the columns of keys, took the writer between 0 and 3 % more for
    // records of 500 bytes, 40 a commit. 16-byte ids took 5 % more, with their conversion here, for 3 % fewer bytes.
    // biome-ignore format: the order of the columns, at a glance.
    this.#insertMessage.run(
      seq, pipeNo, msgId, receivedMs, recordCount, crc, messages, records, bytes, idempotencyKey, body, bodyHash,
    )
  }

  commit(): void {
    const startedAt = performance.now()
    this.#commit.run()
    this.commitMs = performance.now() - startedAt
    if (this.#isFullKnown) return
    assertFull(this.#db)
    this.#isFullKnown = true
  }

  /** Call it after any failure. Does nothing when SQLite has already rolled back. */
  rollback(): void {
    if (this.#db.inTransaction) this.#db.exec('ROLLBACK')
  }

  /** Size of the database including its WAL. */
  bytes(): number {
    return Number(this.#pageCount.get()) * this.#pageSize
  }

  /**
   * The pages in the WAL that could be moved into the database but are not yet. One message of 500 bytes that is committed
   * separately takes two or three.
   */
  wal(): { pages: number; bytes: number } {
    const [, written, moved] = this.#walFrames.get() as [busy: number, written: number, moved: number]
    const waiting = Math.max(0, written - moved)
    this.#keptFrames = Math.min(this.#keptFrames, waiting)
    const pages = waiting - this.#keptFrames
    return { pages, bytes: pages * this.#pageSize }
  }

  /** Moves the WAL into the database, as far as readers allow. Never waits. */
  checkpoint(): void {
    const [row] = this.#db.pragma('wal_checkpoint(PASSIVE)') as { log: number; checkpointed: number }[]
    this.#keptFrames = row === undefined ? 0 : Math.max(0, row.log - row.checkpointed)
  }

  /** Records the clock of the last commit and the last seq, as a part of sealing. */
  markSealed(lastClockMs: number, lastSeq: number): void {
    this.#db.prepare('UPDATE segment SET last_clock_ms = ?, last_seq = ?').run(lastClockMs, lastSeq)
  }

  /** See segment-file.ts: the messages that are missing between these rows are lost. */
  markSalvaged(): void {
    markSalvaged(this.#db)
  }

  hasPipeIndex(): boolean {
    return hasPipeIndex(this.#db)
  }

  createPipeIndex(): void {
    this.#db.exec(pipeIndex)
  }

  /** `holes` is the complete list. */
  writeHoles(holes: readonly SeqRange[]): void {
    this.begin()
    this.#db.exec('DELETE FROM hole')
    insertHoles(this.#db, holes)
    this.commit()
  }

  /**
   * Moves the whole WAL into the database, durably. Returns false when a reader or a full disk prevented it; then the
   * WAL remains.
   */
  moveWal(): boolean {
    try {
      const [row] = this.#db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
      return row?.busy === 0
    } catch (error) {
      if (!isDiskFull(error)) throw error
      return false
    }
  }

  /** Everything except the messages. */
  content(): SegmentContent {
    return readSegmentContent(this.#db)
  }

  /** See sealing.ts. */
  leaveWal(): boolean {
    return leaveWal(this.#db)
  }

  /**
   * For a damaged segment and after a failure: moves as much of the WAL as possible and throws nothing. The rest stays
   * in the WAL.
   */
  abandon(): void {
    try {
      this.rollback()
      this.#db.close()
    } catch {
      // No commit depends on it.
    }
  }

  /**
   * Moves the WAL into the database and closes it. The part that readers need stays in the WAL, which is equally
   * durable.
   */
  close(): void {
    try {
      this.#db.pragma('wal_checkpoint(TRUNCATE)')
    } finally {
      this.#db.close()
    }
  }
}

/** The message for which a key was first used. */
export interface KeyedMessage extends PipeKey {
  bodyHash: string
  seq: number
  msgId: string
  recordCount: number
  receivedMs: number
}

export interface CommitRules {
  /** Returns null when the key is free. */
  findKey(key: PipeKey): KeyedMessage | null
  /** Returns false when the pipe gets no more space. */
  takeShare(pipeId: string, bytes: number): boolean
  /** Returns false when the pipe gets no more space for idempotency keys. */
  takeKey(pipeId: string): boolean
}

/** An append that was not stored: its index in the frame and the reason. */
export type SkippedAppend =
  | { index: number; kind: 'repeated' | 'reused'; first: KeyedMessage }
  | { index: number; kind: 'pipe_share' | 'idempotency_full' }

export interface CommittedFrame {
  /** Seq of the frame's first new message; the others follow without a gap. */
  firstSeq: number
  skipped: SkippedAppend[]
  /** The newest seq of every pipe that got messages. */
  pipes: [pipeId: string, seq: number][]
  keyed: KeyedMessage[]
}

interface Target {
  writer: SegmentWriter
  pipes: PipeTable
}

export interface WrittenFrame {
  committed: CommittedFrame
  /** Seq of the frame's last new message; `afterSeq` when it has none. */
  lastSeq: number
  /** Time at which its first new message was received; null when it has none. */
  firstReceivedMs: number | null
}

/**
 * Commits a frame as one transaction. Messages whose idempotency key was used before, or whose pipe has used up its
 * share, are left out and reported by their index in the frame.
 *
 * New messages get the seqs after `afterSeq`. Throws errors of SQLite; then nothing of the frame is stored.
 */
export function commitFrame(
  frame: Frame,
  afterSeq: number,
  target: Target,
  rules: CommitRules,
): WrittenFrame {
  const { writer, pipes } = target
  const skipped: SkippedAppend[] = []
  const keyed = new Map<string, KeyedMessage>()
  let lastSeq = afterSeq
  let index = -1
  let firstReceivedMs: number | null = null
  try {
    writer.begin()
    for (const message of readFrame(frame)) {
      index += 1
      const first = firstOfKey(message, keyed, rules)
      if (first !== null) {
        skipped.push({ index, kind: message.bodyHash === first.bodyHash ? 'repeated' : 'reused', first })
        continue
      }
      const { pipeId, msgId, recordCount, receivedMs, body, idempotencyKey, bodyHash } = message
      if (idempotencyKey !== null && !rules.takeKey(pipeId)) {
        skipped.push({ index, kind: 'idempotency_full' })
        continue
      }
      if (!rules.takeShare(pipeId, onDisk({ messages: 1, bytes: body.length }))) {
        skipped.push({ index, kind: 'pipe_share' })
        continue
      }
      lastSeq += 1
      insert(message, lastSeq, target)
      firstReceivedMs ??= receivedMs
      if (idempotencyKey === null || bodyHash === null) continue
      const used = { pipeId, key: idempotencyKey, bodyHash, seq: lastSeq, msgId, recordCount, receivedMs }
      keyed.set(pipeId + idempotencyKey, used)
    }
    writer.commit()
  } catch (error) {
    pipes.undo()
    writer.rollback()
    throw error
  }
  const committed = {
    firstSeq: afterSeq + 1,
    skipped,
    pipes: pipes.takeCommitted(),
    keyed: [...keyed.values()],
  }
  return { committed, lastSeq, firstReceivedMs }
}

function insert(message: FramedMessage, seq: number, { writer, pipes }: Target): void {
  const { pipeId, recordCount, body } = message
  const { no, isNew, position } = pipes.advance(pipeId, seq, recordCount, body.length)
  if (isNew) writer.insertPipe(no, pipeId)
  writer.insertMessage(seq, no, message, position)
}

function firstOfKey(
  message: FramedMessage,
  inFrame: ReadonlyMap<string, KeyedMessage>,
  { findKey }: CommitRules,
): KeyedMessage | null {
  const { pipeId, idempotencyKey } = message
  if (idempotencyKey === null) return null
  return inFrame.get(pipeId + idempotencyKey) ?? findKey({ pipeId, key: idempotencyKey })
}
