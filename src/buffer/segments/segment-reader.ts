/**
 * One segment, open for reading. Statements are short: no read transaction outlives a call, so the writer can always
 * reset the WAL.
 */
import type Database from 'better-sqlite3'
import type { PipePosition } from '../buffer.ts'
import { openReadOnly } from './segment-facts.ts'

export interface StoredRow {
  seq: number
  msgId: string
  receivedMs: number
  recordCount: number
  crc: number
  body: Buffer
}

export interface SegmentPipe {
  no: number
  /** Just before this segment. */
  base: PipePosition
}

export interface SegmentReader {
  /** Null when the pipe had no message up to the end of this segment. */
  pipe(pipeId: string): SegmentPipe | null
  /** The pipe's rows in order. The caller must finish or leave the loop before it calls anything else. */
  rows(pipeNo: number, afterSeq: number, throughSeq: number): IterableIterator<StoredRow>
  /** The pipe's newest message up to `throughSeq`; null when it has none here. */
  positionAt(pipeNo: number, throughSeq: number): PipePosition | null
  /** The pipe's first message after `afterSeq`, from `fromMs` on. Without `fromMs` it costs one look-up. */
  firstAfter(pipeNo: number, afterSeq: number, fromMs?: number): { seq: number; receivedMs: number } | null
  /** The newest seq of all pipes; null when the segment is empty. */
  lastSeq(): number | null
  close(): void
}

/** Enough for the inner nodes of the index; bodies are read once and not again. */
const cacheKiB = 2048

/** Throws SQLITE_CANTOPEN when the segment is gone. */
export function openSegmentReader(dir: string, firstSeq: number): SegmentReader {
  const db = openReadOnly(dir, firstSeq)
  try {
    db.pragma(`cache_size = -${cacheKiB}`)
    return segmentReader(db)
  } catch (error) {
    db.close()
    throw error
  }
}

function segmentReader(db: Database.Database): SegmentReader {
  const pipe = db.prepare(
    'SELECT no, base_seq, base_messages, base_records, base_bytes FROM pipe WHERE pipe_id = ?',
  )
  const rows = db
    .prepare(
      `SELECT seq, msg_id, received_ms, record_count, crc, body FROM message
       WHERE pipe = ? AND seq > ? AND seq <= ? ORDER BY seq`,
    )
    .raw()
  const positionAt = db.prepare(
    `SELECT seq, messages, records, bytes FROM message
     WHERE pipe = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`,
  )
  const firstAfter = db.prepare(
    `SELECT seq, received_ms AS receivedMs FROM message
     WHERE pipe = ? AND seq > ? AND received_ms >= ? ORDER BY seq LIMIT 1`,
  )
  const lastSeq = db.prepare('SELECT max(seq) FROM message').pluck()
  /** A pipe's base never changes; one that is not there yet may come. */
  const known = new Map<string, SegmentPipe>()
  return {
    pipe(pipeId) {
      const found = known.get(pipeId)
      if (found !== undefined) return found
      const row = pipe.get(pipeId) as Record<string, number> | undefined
      if (row === undefined) return null
      const { no, base_seq, base_messages, base_records, base_bytes } = row as Record<string, number> & {
        [key in 'no' | 'base_seq' | 'base_messages' | 'base_records' | 'base_bytes']: number
      }
      const base = { seq: base_seq, messages: base_messages, records: base_records, bytes: base_bytes }
      known.set(pipeId, { no, base })
      return { no, base }
    },
    *rows(pipeNo, afterSeq, throughSeq) {
      for (const row of rows.iterate(pipeNo, afterSeq, throughSeq)) {
        const [seq, msgId, receivedMs, recordCount, crc, body] = row as [
          number,
          string,
          number,
          number,
          number,
          Buffer,
        ]
        yield { seq, msgId, receivedMs, recordCount, crc, body }
      }
    },
    positionAt: (pipeNo, throughSeq) =>
      (positionAt.get(pipeNo, throughSeq) as PipePosition | undefined) ?? null,
    firstAfter: (pipeNo, afterSeq, fromMs = Number.MIN_SAFE_INTEGER) =>
      (firstAfter.get(pipeNo, afterSeq, fromMs) as { seq: number; receivedMs: number } | undefined) ?? null,
    lastSeq: () => lastSeq.get() as number | null,
    close: () => db.close(),
  }
}
