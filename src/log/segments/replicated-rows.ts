/**
 * Reads the rows of all pipes in the order of their seqs, for a copy of the log on another machine (log-copy.ts). It runs
 * next to the writer, in any thread, and adds nothing to the writer's path: what it reads is committed and fsynced.
 *
 * Nothing is kept open between two calls, so a segment is never sealed or dropped later because of this reader. Opening
 * the newest segment and finding nothing new takes 0.3 to 0.7 ms of CPU; a caller reads many rows at a time.
 *
 * A segment can be compacted, erased from, salvaged or dropped between two calls. The batches therefore carry what the
 * rows alone do not show (`SegmentHead`):
 *   - the head of each segment, before the first of its rows: the totals of its pipes, its identity, its clock and the
 *     ranges that retention had dropped. So the copy has the same segments, and the same gaps for the same reasons.
 *   - of a segment that was compacted after a part of it was read: the pipes whose totals have moved on without rows.
 */
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'
import { onFile } from '../../platform/storage-error.ts'
import { holesIn } from './check-segment.ts'
import { readHighWater } from './high-water.ts'
import {
  bodyOf,
  headerOf,
  listSegments,
  type MessageRow,
  rowChecksum,
  type SegmentName,
  selectMessages,
} from './layout.ts'
import { indexAt } from './open-segments.ts'
import { isEncodable, RowBatchWriter, type SegmentHead } from './row-batch.ts'
import { type SealedFile, sealedFiles } from './sealed-files.ts'
import { beforeHoles } from './sealed-segments.ts'
import { isSalvaged, openReadOnly, requireKnownFormat, type SeqRange } from './segment-file.ts'
import { ContradictionError, isGone } from './sqlite-errors.ts'

export interface LogRows {
  /**
   * The rows of all pipes after `afterSeq`, in the order of their seqs, exactly as stored and encoded (row-batch.ts).
   * Ends at `maxBytes` of bodies, after at least one row. Null: there is nothing new. Damaged rows are left out and
   * counted; `lastSeq` includes them. Throws errors of SQLite (`isDamage`: a segment must be salvaged first).
   */
  read(afterSeq: number, maxBytes: number): ReadRows | null
  /** The newest seq that was committed; 0 when there is none, or when it is not known. */
  headSeq(): number
  /** The sealed segments, oldest first. They never change; one that is rewritten has another generation and file. */
  sealed(): SealedFile[]
  /** The first seq that retention keeps. */
  keptFromSeq(): number
  close(): void
}

export interface ReadRows {
  rows: Buffer
  firstSeq: number
  lastSeq: number
  messages: number
  /** The length of the bodies. */
  bytes: number
  damaged: number
  /** A limit ended the batch. */
  more: boolean
}

/** The directory must exist. `reusesMemory`: the rows that `read` returns are valid until the next call. */
export function openLogRows(dir: string, { reusesMemory = false } = {}): LogRows {
  return new SegmentRows(dir, reusesMemory)
}

/** Rows are fetched in groups, because a loop over single rows takes 1 µs more for each. */
const groupBytes = 256 * 1024
const maxGroupRows = 512
const maxTries = 10
/** Memory that is allocated before it is known to be needed is at most about this. */
const largestBatchBytes = 8 * 1024 * 1024
/** About the size of a row of a batch without its body. */
const rowOverheadBytes = 160

class SegmentRows implements LogRows {
  readonly #dir: string
  readonly #sealed = new Map<string, SealedFile>()
  readonly #reusesMemory: boolean
  #memory: Buffer | null = null

  constructor(dir: string, reusesMemory: boolean) {
    this.#dir = dir
    this.#reusesMemory = reusesMemory
  }

  read(afterSeq: number, maxBytes: number): ReadRows | null {
    for (let tries = 1; ; tries += 1) {
      try {
        const read = readBatch(this.#dir, { afterSeq, maxBytes, memory: this.#memory })
        const isKept = this.#reusesMemory && read !== null && read.memory.length <= largestBatchBytes
        if (isKept) this.#memory = read.memory
        return read
      } catch (error) {
        // A segment was dropped or replaced after the directory was listed.
        if (!isGone(error) || tries === maxTries) throw error
      }
    }
  }

  headSeq(): number {
    for (let tries = 1; ; tries += 1) {
      try {
        return newestSeq(this.#dir)
      } catch (error) {
        if (!isGone(error) || tries === maxTries) throw error
      }
    }
  }

  sealed(): SealedFile[] {
    return sealedFiles(this.#dir, this.#sealed)
  }

  keptFromSeq(): number {
    return keptFrom(this.#dir, listSegments(this.#dir))
  }

  close(): void {
    this.#sealed.clear()
  }
}

function newestSeq(dir: string): number {
  const newest = listSegments(dir).at(-1)
  if (newest === undefined) return 0
  const db = openReadOnly(dir, newest)
  try {
    const found = db.prepare('SELECT max(seq) FROM message').pluck().get()
    // An empty segment begins after the last seq of the one before it.
    return typeof found === 'number' ? found : newest.firstSeq - 1
  } finally {
    db.close()
  }
}

function keptFrom(dir: string, names: readonly SegmentName[]): number {
  const mark = readMark(dir)
  return mark.oldestKeptSeq > 0 ? mark.oldestKeptSeq : (names[0]?.firstSeq ?? 1)
}

function readMark(dir: string): { clockMs: number; oldestKeptSeq: number } {
  const mark = readHighWater(path.join(dir, 'high-water'))
  return typeof mark === 'string' ? { clockMs: 0, oldestKeptSeq: 0 } : mark
}

interface BatchSpec {
  afterSeq: number
  maxBytes: number
  /** That of an earlier batch, which is overwritten. */
  memory: Buffer | null
}

function readBatch(dir: string, spec: BatchSpec): (ReadRows & { memory: Buffer }) | null {
  const { afterSeq } = spec
  const names = listSegments(dir)
  const batch = new Batch(spec)
  const firstSeqs = names.map(({ firstSeq }) => firstSeq)
  const newest = names.at(-1)
  for (const name of names.slice(Math.max(0, indexAt(firstSeqs, afterSeq + 1)))) {
    if (newest === undefined || readSegment({ dir, name, newest, batch }) === 'full') break
  }
  // Read last: it was true after these rows were committed.
  return batch.finish({ clockMs: readMark(dir).clockMs, oldestKeptSeq: keptFrom(dir, names) })
}

interface Reading {
  dir: string
  name: SegmentName
  newest: SegmentName
  batch: Batch
}

function readSegment({ dir, name, newest, batch }: Reading): 'full' | 'end' {
  const db = openReadOnly(dir, name)
  try {
    return onFile('reading', db.name, () => {
      requireKnownFormat(db)
      const rows = new RowsOfSegment(db, batch.lastSeq)
      const first = rows.next(batch.room())
      const head = headOf(db, name, batch.lastSeq)
      if (head !== null && (first.length > 0 || batch.lastSeq >= name.firstSeq)) {
        batch.head(head, holesIn(dir, newest))
      }
      const isBegun = batch.lastSeq >= name.firstSeq || first.length > 0
      for (let group = first; group.length > 0; group = rows.next(batch.room())) {
        for (const row of group) {
          if (!batch.add(row, rows.pipeId(row))) return 'full'
        }
      }
      batch.end(name.firstSeq, lastSeqOf(db), isBegun)
      return 'end'
    })
  } finally {
    db.close()
  }
}

/** The part of the head that the segment itself states. */
type FoundHead = Omit<SegmentHead, 'holes' | 'previousLastSeq'>

/** Null: rows of the segment were read before and none was removed since, so the copy has its head. */
function headOf(
  db: Database.Database,
  { firstSeq, generation }: SegmentName,
  afterSeq: number,
): FoundHead | null {
  const isBegun = afterSeq >= firstSeq
  if (isBegun && generation === 0) return null
  const columns = 'pipe_id, base_seq, base_messages, base_records, base_bytes'
  const pipes = db.prepare(`SELECT ${columns} FROM pipe NOT INDEXED WHERE base_seq > ? ORDER BY no`).raw()
  // Without a base, a pipe has its first message here.
  const found = pipes.all(isBegun ? afterSeq : 0) as [string, number, number, number, number][]
  if (isBegun && found.length === 0) return null
  const bases = found.map(([pipeId, seq, messages, records, bytes]) => ({
    pipeId,
    position: { seq, messages, records, bytes },
  }))
  const stated = db
    .prepare(
      `SELECT segment_id AS segmentId, previous_segment_id AS previousSegmentId, epoch, begun_clock_ms AS begunClockMs
       FROM segment`,
    )
    .get() as Pick<FoundHead, 'segmentId' | 'previousSegmentId' | 'epoch' | 'begunClockMs'>
  return { firstSeq, ...stated, isSalvaged: isSalvaged(db), bases }
}

/** Null: the segment does not state its end yet. */
function lastSeqOf(db: Database.Database): number | null {
  return db.prepare('SELECT last_seq FROM segment').pluck().get() as number | null
}

/** The rows of one segment after a seq, in groups. */
class RowsOfSegment {
  readonly #db: Database.Database
  readonly #rows: Database.Statement
  readonly #pipeIds: Map<number, string>
  #afterSeq: number
  /** Guessed at first. */
  #meanBytes = groupBytes / 64

  constructor(db: Database.Database, afterSeq: number) {
    this.#db = db
    this.#afterSeq = afterSeq
    // Reads the table instead of an index: one page a group, and an index can be the damaged part.
    this.#rows = db
      .prepare(`${selectMessages('message NOT INDEXED')} WHERE seq > ? ORDER BY seq LIMIT ?`)
      .raw()
    this.#pipeIds = new Map()
  }

  /** Empty at the end. `bytes`: no more than about this much is needed. */
  next(bytes: number): MessageRow[] {
    const wanted = Math.min(groupBytes, bytes) / this.#meanBytes
    const limit = Math.max(1, Math.min(maxGroupRows, Math.ceil(wanted)))
    const group = this.#rows.all(this.#afterSeq, limit) as MessageRow[]
    let total = 0
    for (const row of group) {
      if (row[0] <= this.#afterSeq)
        throw new ContradictionError(
          `${this.#db.name}: message ${row[0]} is found twice: the file is damaged`,
        )
      this.#afterSeq = row[0]
      total += bodyOf(row).length
    }
    if (group.length > 0) this.#meanBytes = Math.max(1, total / group.length)
    return group
  }

  /** '' for a number that belongs to no pipe: the row is damaged. */
  pipeId(row: MessageRow): string {
    return this.#pipeIds.get(row[1]) ?? this.#look(row[1])
  }

  #look(no: number): string {
    const id = this.#db.prepare('SELECT pipe_id FROM pipe WHERE no = ?').pluck().get(no)
    const pipeId = typeof id === 'string' ? id : ''
    this.#pipeIds.set(no, pipeId)
    return pipeId
  }
}

/** A batch while it is collected. */
class Batch {
  readonly #afterSeq: number
  readonly #maxBytes: number
  readonly #writer: RowBatchWriter
  #firstSeq: number | null = null
  #lastSeq: number
  #messages = 0
  #bytes = 0
  #damaged = 0
  #more = false
  /** The last seq of the segment that was read before, and the ranges of segments without rows. */
  #endSeq = 0
  #emptied: SeqRange[] = []

  constructor({ afterSeq, maxBytes, memory }: BatchSpec) {
    this.#afterSeq = afterSeq
    this.#lastSeq = afterSeq
    this.#maxBytes = maxBytes
    // A row of 450 bytes takes a fifth more in a batch.
    const fullBytes = Math.min(maxBytes, largestBatchBytes) * 1.25 + groupBytes
    this.#writer = new RowBatchWriter(Math.min(maxBytes, groupBytes) + rowOverheadBytes, fullBytes, memory)
  }

  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Bytes up to the limit. */
  room(): number {
    return Math.max(0, this.#maxBytes - this.#bytes)
  }

  /** `dropped` is the complete list of holes of the log. */
  head(head: FoundHead, dropped: readonly SeqRange[]): void {
    const holes = [...dropped.filter(({ lastSeq }) => lastSeq < head.firstSeq), ...this.#emptied]
    this.#writer.head({ ...head, previousLastSeq: beforeHoles(this.#endSeq, dropped), holes })
    this.#emptied = []
    this.#endSeq = 0
  }

  /** The end of a segment is reached. Without rows, nothing of it is kept. */
  end(firstSeq: number, lastSeq: number | null, hasRows: boolean): void {
    if (lastSeq === null) return
    if (hasRows) this.#endSeq = lastSeq
    else this.#emptied.push({ firstSeq, lastSeq })
  }

  /** Returns false when the row does not fit. */
  add(row: MessageRow, pipeId: string): boolean {
    const body = bodyOf(row)
    this.#more = this.#firstSeq !== null && this.#bytes + body.length > this.#maxBytes
    if (this.#more) return false
    this.#firstSeq ??= row[0]
    this.#lastSeq = row[0]
    this.#bytes += body.length
    if (isEncodable(row) && rowChecksum(headerOf(row, pipeId), crc32(body)) === row[5]) {
      this.#writer.row(row, pipeId)
      this.#messages += 1
    } else this.#damaged += 1
    return true
  }

  /** Null when nothing was added. */
  finish(mark: { clockMs: number; oldestKeptSeq: number }): (ReadRows & { memory: Buffer }) | null {
    if (this.#firstSeq === null) return null
    return {
      rows: this.#writer.finish({ afterSeq: this.#afterSeq, ...mark }),
      memory: this.#writer.memory,
      firstSeq: this.#firstSeq,
      lastSeq: this.#lastSeq,
      messages: this.#messages,
      bytes: this.#bytes,
      damaged: this.#damaged,
      more: this.#more,
    }
  }
}
