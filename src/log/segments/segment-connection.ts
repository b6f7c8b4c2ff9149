/**
 * One segment, open for reading, and where its damaged messages are put. Statements are short: no read transaction
 * outlives a call, so the writer can always reset the WAL.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'
import { inWords, onFile } from '../../platform/storage-error.ts'
import type { CursorMark } from '../buffer.ts'
import type { SegmentName } from './layout.ts'
import { type RowHeader, rowChecksum } from './message-row.ts'
import { markOf, type PipePosition } from './position.ts'
import { readHoles } from './segment-facts.ts'
import { isSalvaged, openReadOnly, requireKnownFormat, type SeqRange } from './segment-file.ts'
import { ContradictionError } from './sqlite-errors.ts'

export interface StoredRow extends RowHeader {
  crc: number
  body: Buffer
  mark: CursorMark
}

export interface SegmentPipe {
  pipeId: string
  no: number
  /** Just before this segment's first message of the pipe. */
  base: PipePosition
}

/** The most that the caller takes, except for one more row, which shows that there are more. Bounds needless reads. */
export interface RowLimits {
  records: number
  bytes: number
}

/** `Body`: itself, or how long it is. */
type RowColumns<Body = Buffer> = [
  ...[seq: number, msgId: string, receivedMs: number, recordCount: number, crc: number, body: Body],
  ...[messages: number, records: number, bytes: number],
  ...[idempotencyKey: string | null, bodyHash: string | null],
]
type PipeColumns = [no: number, seq: number, messages: number, records: number, bytes: number]

/** One look into the index for each pipe in the newest segment. */
const selectHeads = `
  SELECT pipe_id, coalesce(
    (SELECT seq FROM message WHERE message.pipe = pipe.no ORDER BY seq DESC LIMIT 1), base_seq) FROM pipe`

/** Enough for the inner nodes of the index; bodies are read once and not again. */
const cacheKiB = 2048

/**
 * Small messages are read many at a time, their bodies as one piece of memory: single records cost 3.7 µs of CPU each so,
 * and 4.9 µs one by one. Large ones gain nothing by it.
 */
const smallBytes = 4096
const smallInARow = 4
const firstRunRows = 16
const mostRunRows = 512

/** The range that is left to be read. */
interface Span extends RowLimits {
  afterSeq: number
  throughSeq: number
}

function pass(span: Span, { seq, recordCount, body }: StoredRow): void {
  span.afterSeq = seq
  span.records -= recordCount
  span.bytes -= body.length
}

/** How many rows from the start have small bodies, within the limit all together. */
function smallOnes(rows: readonly RowColumns<number>[], mostBytes: number): number {
  let sum = 0
  const end = rows.findIndex(([, , , , , bytes]) => {
    sum += bytes
    return bytes > smallBytes || sum > mostBytes
  })
  return end === -1 ? rows.length : end
}

function storedRow(pipeId: string, row: RowColumns<unknown>, body: Buffer): StoredRow {
  const [seq, msgId, receivedMs, recordCount, crc, , messages, records, bytes, idempotencyKey, bodyHash] = row
  const mark = markOf(messages, records, bytes)
  // biome-ignore format: one object per row, in the order of the columns.
  return {
    seq, pipeId, msgId, receivedMs, recordCount, crc, body, messages, records, bytes, idempotencyKey, bodyHash, mark,
  }
}

/** Throws SQLITE_CANTOPEN when the segment is gone. */
export function openSegmentConnection(dir: string, name: SegmentName): SegmentConnection {
  const db = openReadOnly(dir, name)
  try {
    db.pragma(`cache_size = -${cacheKiB}`)
    return onFile('opening', db.name, () => new SegmentConnection(db, name.generation > 0))
  } catch (error) {
    db.close()
    throw error
  }
}

export class SegmentConnection {
  /** It is still written, or not sealed yet: see sealing.ts. */
  readonly hasWal: boolean
  readonly #db: Database.Database
  readonly #isCompacted: boolean
  readonly #isSalvaged: boolean
  readonly #pipe: Database.Statement
  readonly #rows: Database.Statement
  readonly #headers: Database.Statement
  readonly #bodies: Database.Statement
  readonly #positionAt: Database.Statement
  readonly #firstAfter: Database.Statement
  readonly #lastSeq: Database.Statement
  /** A pipe's base never changes; one that is not there yet may come. */
  readonly #known = new Map<string, SegmentPipe>()

  constructor(db: Database.Database, isCompacted: boolean) {
    this.#db = db
    this.hasWal = db.pragma('journal_mode', { simple: true }) === 'wal'
    this.#isCompacted = isCompacted
    this.#isSalvaged = isSalvaged(db)
    requireKnownFormat(db)
    this.#pipe = db
      .prepare('SELECT no, base_seq, base_messages, base_records, base_bytes FROM pipe WHERE pipe_id = ?')
      .raw()
    const rows = (body: string) => `
      SELECT seq, msg_id, received_ms, record_count, crc, ${body}, messages, records, bytes, idempotency_key, body_hash
      FROM message WHERE pipe = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`
    this.#rows = db.prepare(rows('body')).raw()
    this.#headers = db.prepare(rows('length(body)')).raw()
    // Bytes pass both casts as they are.
    this.#bodies = db
      .prepare(
        `SELECT CAST(group_concat(CAST(body AS TEXT), '') AS BLOB) FROM
           (SELECT body FROM message WHERE pipe = ? AND seq > ? AND seq <= ? ORDER BY seq)`,
      )
      .pluck()
    this.#positionAt = db.prepare(
      `SELECT seq, messages, records, bytes FROM message
       WHERE pipe = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`,
    )
    this.#firstAfter = db.prepare(
      `SELECT seq, received_ms AS receivedMs FROM message
       WHERE pipe = ? AND seq > ? AND received_ms >= ? ORDER BY seq LIMIT 1`,
    )
    this.#lastSeq = db
      .prepare(`SELECT ${isCompacted ? 'last_seq FROM segment' : 'max(seq) FROM message'}`)
      .pluck()
  }

  /** Null when the pipe had no message up to the end of this segment. */
  pipe(pipeId: string): SegmentPipe | null {
    const found = this.#known.get(pipeId)
    if (found !== undefined) return found
    const row = this.#read(() => this.#pipe.get(pipeId)) as PipeColumns | undefined
    if (row === undefined) return null
    const [no, seq, messages, records, bytes] = row
    const pipe = { pipeId, no, base: { seq, messages, records, bytes } }
    this.#known.set(pipeId, pipe)
    return pipe
  }

  /** The pipe's rows in order. The caller must finish or leave the loop before it calls anything else. */
  *rows(pipe: SegmentPipe, afterSeq: number, throughSeq: number, limits: RowLimits): Generator<StoredRow> {
    const span = { ...limits, afterSeq, throughSeq }
    try {
      while ((yield* this.#oneByOne(pipe, span)) && (yield* this.#together(pipe, span)));
    } catch (error) {
      throw inWords(error, 'reading', this.#db.name)
    }
  }

  /** False at the end; true after some small ones in a row. */
  *#oneByOne({ pipeId, no }: SegmentPipe, span: Span): Generator<StoredRow, boolean> {
    let small = 0
    const rows = this.#rows.iterate(no, span.afterSeq, span.throughSeq, -1)
    for (const row of rows as IterableIterator<RowColumns>) {
      const stored = storedRow(pipeId, row, row[5])
      yield stored
      pass(span, stored)
      small = stored.body.length <= smallBytes ? small + 1 : 0
      if (small === smallInARow) return true
    }
    return false
  }

  /** False at the end; true before one that is large, and where the limit is. */
  *#together({ pipeId, no }: SegmentPipe, span: Span): Generator<StoredRow, boolean> {
    for (let runRows = firstRunRows; ; runRows = Math.min(4 * runRows, mostRunRows)) {
      // A message has one record or more, and one row beyond the limit says that there are more.
      const asked = Math.min(runRows, span.records + 1)
      if (asked < 1) return true
      const { afterSeq, throughSeq } = span
      const found = this.#headers.all(no, afterSeq, throughSeq, asked) as RowColumns<number>[]
      const run = found.slice(0, smallOnes(found, span.bytes))
      const last = run.at(-1)
      if (last === undefined) return found.length > 0
      const bodies = this.#bodies.get(no, afterSeq, last[0]) as Buffer | null
      // Not what the headers say: damaged, and it will be met row by row.
      if (bodies?.length !== run.reduce((sum, row) => sum + row[5], 0)) return true
      let at = 0
      for (const row of run) {
        const stored = storedRow(pipeId, row, bodies.subarray(at, at + row[5]))
        at += row[5]
        yield stored
        pass(span, stored)
      }
      if (run.length < found.length) return true
      if (found.length < asked) return false
    }
  }

  /** The row is what was written: its checksum says so. Reads the whole body. */
  isIntact(row: StoredRow): boolean {
    return row.crc === rowChecksum(row, crc32(row.body))
  }

  /**
   * Rows are read through an index: it must name each once, in order, and none of another pipe. Throws
   * ContradictionError where it does not. `lastSeq`: of the row before.
   */
  checkOrder(row: StoredRow, lastSeq: number): void {
    if (row.seq <= lastSeq) throw this.#contradiction(`message ${row.seq} is found twice`)
  }

  /** For a row that is not intact. */
  checkPipe({ no }: SegmentPipe, { seq }: StoredRow): void {
    const pipeNo = this.#db.prepare('SELECT pipe FROM message NOT INDEXED WHERE seq = ?').pluck().get(seq)
    if (pipeNo !== no) throw this.#contradiction(`message ${seq} is found in another pipe`)
  }

  /** Messages lack between a place in this segment and a row: only what was not salvaged yet may still have them. */
  checkLostBefore(pipe: SegmentPipe, row: StoredRow, afterSeq: number): void {
    if (this.#isSalvaged) return
    const at = this.positionAt(pipe.no, afterSeq) ?? pipe.base
    // Else it is the reader who has counted otherwise.
    if (at.messages < row.messages - 1) throw this.#contradiction(`messages before ${row.seq} are not found`)
  }

  /** Likewise at its end, which the next segment knows. */
  checkLostAtEnd({ pipeId, base }: SegmentPipe): void {
    if (this.#isSalvaged || this.#endSeq() < base.seq) return
    const pipe = this.pipe(pipeId)
    // Compaction leaves out deleted pipes.
    if (pipe === null && this.#isCompacted) return
    const last = pipe && (this.positionAt(pipe.no, base.seq) ?? pipe.base)
    if ((last?.messages ?? 0) < base.messages) {
      throw this.#contradiction(`messages up to ${base.seq} are not found`)
    }
  }

  #endSeq(): number {
    const sealed = this.#db.prepare('SELECT last_seq FROM segment').pluck().get()
    return (sealed as number | null) ?? this.lastSeq() ?? 0
  }

  #contradiction(what: string): Error {
    return new ContradictionError(`${this.#db.name}: ${what}: the file is damaged`)
  }

  /** The ranges between segments that retention had dropped up to now, as the newest segment records them. */
  holes(): SeqRange[] {
    return readHoles(this.#db)
  }

  /** The pipe's newest message up to `throughSeq`; null when it has none here. */
  positionAt(pipeNo: number, throughSeq: number): PipePosition | null {
    return (this.#read(() => this.#positionAt.get(pipeNo, throughSeq)) as PipePosition | undefined) ?? null
  }

  /** The pipe's first message after `afterSeq`, from `fromMs` on. Without `fromMs` it costs one look-up. */
  firstAfter(
    pipeNo: number,
    afterSeq: number,
    fromMs = Number.MIN_SAFE_INTEGER,
  ): { seq: number; receivedMs: number } | null {
    const row = this.#read(() => this.#firstAfter.get(pipeNo, afterSeq, fromMs))
    return (row as { seq: number; receivedMs: number } | undefined) ?? null
  }

  /** The newest seq of all pipes, compacted away or not; null when the segment is empty. */
  lastSeq(): number | null {
    return this.#read(() => this.#lastSeq.get()) as number | null
  }

  /** The newest seq of every pipe that this segment or an older one has had messages of. */
  heads(): Map<string, number> {
    return new Map(this.#read(() => this.#db.prepare(selectHeads).raw().all()) as [string, number][])
  }

  /** The pipes that this segment or an older one has had messages of. */
  pipeIds(): string[] {
    return this.#read(() => this.#db.prepare('SELECT pipe_id FROM pipe').pluck().all()) as string[]
  }

  close(): void {
    this.#db.close()
  }

  #read<T>(run: () => T): T {
    return onFile('reading', this.#db.name, run)
  }
}

/**
 * Puts a damaged message aside: `<seq>-<msg_id>.body` with the bytes as they were found, and a `.json` beside it that
 * says what they are. True when it was put aside now, false when it was there.
 */
export function quarantine(dir: string, pipeId: string, row: StoredRow): boolean {
  const seq = String(row.seq).padStart(20, '0')
  // A damaged row's id may be anything: only what a UUID has goes into a file name.
  const base = path.join(dir, `${seq}-${row.msgId.replace(/[^0-9a-f-]/gi, '_').slice(0, 36)}`)
  const description = `${base}.json`
  if (existsSync(description)) return false
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  writeFileSync(`${base}.body`, row.body, { mode: 0o600 })
  const facts = {
    pipe_id: pipeId,
    stream_seq: row.seq,
    msg_id: row.msgId,
    received_ts: new Date(row.receivedMs).toISOString(),
    records_count: row.recordCount,
    row_checksum: row.crc,
    body_crc32: crc32(row.body),
    body_bytes: row.body.length,
  }
  // Last, so that its presence means both are there.
  writeFileSync(description, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
  return true
}
