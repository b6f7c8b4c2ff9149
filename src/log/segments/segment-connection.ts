/**
 * One segment, open for reading, and the quarantine of its damaged messages. No read transaction outlives a call, so
 * that the writer can always reset the WAL.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'
import { inWords, onFile } from '../../platform/storage-error.ts'
import type { CursorMark } from '../buffer.ts'
import { hasPipeIndex, PipeRows, type RowHeader, rowChecksum, type SegmentName } from './layout.ts'
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
  /** The position just before this segment's first message of the pipe. */
  base: PipePosition
  /** Sizes of the last message that was read in a run: a guess at how many messages the next run has. */
  lastInRun: { records: number; bytes: number } | null
}

/** Limits of a read. One more row than the limit can be read, which shows that there are more. */
export interface RowLimits {
  records: number
  bytes: number
}

/** `Body` is the body itself or its length. */
type RowColumns<Body = Buffer> = [
  ...[seq: number, msgId: string, receivedMs: number, recordCount: number, crc: number, body: Body],
  ...[messages: number, records: number, bytes: number],
  ...[idempotencyKey: string | null, bodyHash: string | null],
]
type PipeColumns = [no: number, seq: number, messages: number, records: number, bytes: number]

/** Enough for the inner nodes of the index. Bodies are read only once and need no cache. */
const cacheKiB = 2048

/**
 * Messages are read in runs, with their bodies as one piece of memory in which each body is followed by a newline. For
 * single records this takes 3.7 µs of CPU per record instead of 4.9 µs. Larger messages gain because V8 collects garbage
 * after every few megabytes of such memory, and because a batch of one run is sent as it is (`asNdjson`).
 */
const smallBytes = 256 * 1024
const smallInARow = 4
const firstRunRows = 16
const maxRunRows = 1_024
/** SQLite has up to three copies of a run in memory while it is read. */
const maxRunBytes = 2 * 1024 * 1024

/** The range that is still to be read. */
interface Span extends RowLimits {
  afterSeq: number
  throughSeq: number
}

function pass(span: Span, { seq, recordCount, body }: StoredRow): void {
  span.afterSeq = seq
  span.records -= recordCount
  span.bytes -= body.length
}

/** The number of leading rows with small bodies that fit into the limits together. */
function smallOnes(rows: readonly RowColumns<number>[], limits: RowLimits): number {
  const left = { records: limits.records, bytes: Math.min(limits.bytes, maxRunBytes) }
  const end = rows.findIndex(([, , , recordCount, , bytes]) => {
    left.records -= recordCount
    left.bytes -= bytes
    return bytes > smallBytes || left.records < 0 || left.bytes < 0
  })
  return end === -1 ? rows.length : end
}

/** The number of rows that the first run needs, and one more, which shows that there are more. */
function expectedRows({ lastInRun }: SegmentPipe, { records, bytes }: RowLimits): number {
  if (lastInRun === null) return firstRunRows
  const byBytes = Math.min(bytes, maxRunBytes) / Math.max(lastInRun.bytes, 1)
  return Math.max(firstRunRows, Math.ceil(Math.min(records / lastInRun.records, byBytes)) + 1)
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
  /** The segment is being written or not sealed yet: see sealing.ts. */
  readonly hasWal: boolean
  readonly #db: Database.Database
  readonly #byPipe: PipeRows
  readonly #isCompacted: boolean
  readonly #isSalvaged: boolean
  readonly #pipe: Database.Statement
  readonly #rows: Database.Statement
  readonly #headers: Database.Statement
  readonly #bodies: Database.Statement
  readonly #positionAt: Database.Statement
  readonly #firstAfter: Database.Statement
  readonly #lastSeq: Database.Statement
  /** Known pipes. A pipe's base never changes; unknown pipes can still appear. */
  readonly #known = new Map<string, SegmentPipe>()

  constructor(db: Database.Database, isCompacted: boolean) {
    this.#db = db
    this.hasWal = db.pragma('journal_mode', { simple: true }) === 'wal'
    this.#isCompacted = isCompacted
    this.#isSalvaged = isSalvaged(db)
    requireKnownFormat(db)
    this.#byPipe = new PipeRows(db)
    const { rows, pipe } = this.#byPipe
    this.#pipe = db
      .prepare('SELECT no, base_seq, base_messages, base_records, base_bytes FROM pipe WHERE pipe_id = ?')
      .raw()
    const select = (body: string) => `
      SELECT seq, msg_id, received_ms, record_count, crc, ${body}, messages, records, bytes, idempotency_key, body_hash
      FROM ${rows} WHERE ${pipe} = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`
    this.#rows = db.prepare(select('body')).raw()
    this.#headers = db.prepare(select('length(body)')).raw()
    // SQLite's casts keep the bytes as they are.
    this.#bodies = db
      .prepare(
        `SELECT CAST(group_concat(CAST(body AS TEXT), x'0a') || x'0a' AS BLOB) FROM
           (SELECT body FROM ${rows} WHERE ${pipe} = ? AND seq > ? AND seq <= ? ORDER BY seq)`,
      )
      .pluck()
    this.#positionAt = db.prepare(
      `SELECT seq, messages, records, bytes FROM ${rows}
       WHERE ${pipe} = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`,
    )
    this.#firstAfter = db.prepare(
      `SELECT seq, received_ms AS receivedMs FROM ${rows}
       WHERE ${pipe} = ? AND seq > ? AND received_ms >= ? ORDER BY seq LIMIT 1`,
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
    const pipe = { pipeId, no, base: { seq, messages, records, bytes }, lastInRun: null }
    this.#known.set(pipeId, pipe)
    return pipe
  }

  /** Yields the pipe's rows in order. The caller must finish or leave the loop before it makes another call. */
  *rows(pipe: SegmentPipe, afterSeq: number, throughSeq: number, limits: RowLimits): Generator<StoredRow> {
    const span = { ...limits, afterSeq, throughSeq }
    try {
      this.#byPipe.catchUp()
      if (limits.records === 1 && !(yield* this.#oneByOne(pipe, span))) return
      while ((yield* this.#together(pipe, span)) && (yield* this.#oneByOne(pipe, span)));
    } catch (error) {
      throw inWords(error, 'reading', this.#db.name)
    }
  }

  /** Returns false at the end; true after a run of small rows. */
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

  /** Returns false at the end; true before a large row and at the limit. */
  *#together(pipe: SegmentPipe, span: Span): Generator<StoredRow, boolean> {
    const { pipeId, no } = pipe
    for (let runRows = expectedRows(pipe, span); ; runRows *= 4) {
      // Every message has at least one record, and one row beyond the limit shows that there are more.
      const asked = Math.min(runRows, maxRunRows, span.records + 1)
      if (asked < 1) return true
      const { afterSeq, throughSeq } = span
      const found = this.#headers.all(no, afterSeq, throughSeq, asked) as RowColumns<number>[]
      const run = found.slice(0, smallOnes(found, span))
      const last = run.at(-1)
      if (last === undefined) return found.length > 0
      const bodies = this.#bodies.get(no, afterSeq, last[0]) as Buffer | null
      // Does not match the headers: damage, which reading row by row will locate.
      if (bodies?.length !== run.reduce((sum, row) => sum + row[5] + 1, 0)) return true
      let at = 0
      for (const row of run) {
        const stored = storedRow(pipeId, row, bodies.subarray(at, at + row[5]))
        at += row[5] + 1
        pipe.lastInRun = { records: row[3], bytes: row[5] }
        yield stored
        pass(span, stored)
      }
      if (run.length < found.length) return true
      if (found.length < asked) return false
    }
  }

  /** Verifies the row's checksum. Reads the whole body. */
  isIntact(row: StoredRow): boolean {
    return row.crc === rowChecksum(row, crc32(row.body))
  }

  /**
   * Rows are read through an index, which must list each row once, in order, and only of this pipe. Throws
   * ContradictionError otherwise. `lastSeq` is the seq of the previous row.
   */
  checkOrder(row: StoredRow, lastSeq: number): void {
    if (row.seq <= lastSeq) throw this.#contradiction(`message ${row.seq} is found twice`)
  }

  /** The same check for a damaged row. Without an index, the damaged part can be the row's own number of its pipe. */
  checkPipe({ pipeId, no }: SegmentPipe, row: StoredRow): void {
    const { seq, crc, body } = row
    const pipeNo = this.#db.prepare('SELECT pipe FROM message NOT INDEXED WHERE seq = ?').pluck().get(seq)
    // A body can have many megabytes, and there can be thousands of pipes.
    const bodyCrc = crc32(body)
    const isOf = (other: string) =>
      other !== pipeId && crc === rowChecksum({ ...row, pipeId: other }, bodyCrc)
    if (pipeNo !== no || this.pipeIds().some(isOf))
      throw this.#contradiction(`message ${seq} is found in another pipe`)
  }

  /**
   * Throws when messages are missing between a position in this segment and a row, unless the segment was salvaged:
   * otherwise they can still be in the file.
   */
  checkLostBefore(pipe: SegmentPipe, row: StoredRow, afterSeq: number): void {
    if (this.#isSalvaged) return
    const at = this.positionAt(pipe.no, afterSeq) ?? pipe.base
    // If not, the reader's own count is different, which is no damage.
    if (at.messages < row.messages - 1) throw this.#contradiction(`messages before ${row.seq} are not found`)
  }

  /** The same check at the end of the segment, which the next segment states. */
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

  /** The ranges between segments that retention had dropped when the newest segment recorded them. */
  holes(): SeqRange[] {
    return readHoles(this.#db)
  }

  /** The pipe's newest message up to `throughSeq`; null when it has none in this segment. */
  positionAt(pipeNo: number, throughSeq: number): PipePosition | null {
    return (
      (this.#readByPipe(() => this.#positionAt.get(pipeNo, throughSeq)) as PipePosition | undefined) ?? null
    )
  }

  /**
   * The pipe's first message after `afterSeq` that was received at `fromMs` or later. Without `fromMs` it costs one
   * lookup.
   */
  firstAfter(
    pipeNo: number,
    afterSeq: number,
    fromMs = Number.MIN_SAFE_INTEGER,
  ): { seq: number; receivedMs: number } | null {
    const row = this.#readByPipe(() => this.#firstAfter.get(pipeNo, afterSeq, fromMs))
    return (row as { seq: number; receivedMs: number } | undefined) ?? null
  }

  /** The newest seq of all pipes, including messages that compaction removed; null when the segment is empty. */
  lastSeq(): number | null {
    return this.#read(() => this.#lastSeq.get()) as number | null
  }

  /** The newest seq of every pipe with messages in this or an older segment. */
  heads(): Map<string, number> {
    const { seqs, pipe } = this.#byPipe
    const newest = `(SELECT seq FROM ${seqs} WHERE ${pipe} = no ORDER BY seq DESC LIMIT 1)`
    const select = this.#db.prepare(`SELECT pipe_id, coalesce(${newest}, base_seq) FROM pipe`).raw()
    return new Map(this.#readByPipe(() => select.all()) as [string, number][])
  }

  /** The pipes with messages in this or an older segment. */
  pipeIds(): string[] {
    return this.#read(() => this.#db.prepare('SELECT pipe_id FROM pipe').pluck().all()) as string[]
  }

  /** True when the segment has its index by pipe now: see `PipeRows`. */
  isIndexed(): boolean {
    return this.#read(() => hasPipeIndex(this.#db))
  }

  close(): void {
    this.#db.close()
  }

  #readByPipe<T>(run: () => T): T {
    return this.#read(() => {
      this.#byPipe.catchUp()
      return run()
    })
  }

  #read<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw inWords(error, 'reading', this.#db.name)
    }
  }
}

/**
 * Quarantines a damaged message: writes `<seq>-<msg_id>.body` with the bytes as they were read, and a `.json` that
 * describes them. Returns false when it was quarantined before.
 */
export function quarantine(dir: string, pipeId: string, row: StoredRow): boolean {
  const seq = String(row.seq).padStart(20, '0')
  // The id of a damaged row can be anything: only characters of a UUID go into the file name.
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
  // Written last: when it exists, both files exist.
  writeFileSync(description, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
  return true
}
