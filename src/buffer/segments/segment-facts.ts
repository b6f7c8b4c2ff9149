/**
 * What retention needs to know about a segment, read once when the buffer is opened; the writer keeps the facts of
 * the segments it writes itself. Costs one index look-up a pipe.
 */
import Database from 'better-sqlite3'
import type { PipePosition } from '../buffer.ts'
import { segmentFile } from './layout.ts'

export interface SegmentFacts {
  firstSeq: number
  /** On disk, with its WAL. */
  bytes: number
  messages: number
  firstReceivedMs: number | null
  /** The buffer's clock when the last message was committed, or a little later. */
  lastClockMs: number
  /** The pipes with messages in this segment: their last one, and how many. */
  pipes: Map<string, { lastSeq: number; messages: number }>
}

/** One pipe as a segment knows it: `base` is its position before the segment, `last` its newest one in or before it. */
export interface PipeInSegment {
  no: number
  pipeId: string
  base: PipePosition
  last: PipePosition
}

export interface SegmentContent {
  begunClockMs: number
  /** Null while the segment is not sealed, and when the disk was too full to write it down. */
  sealedClockMs: number | null
  /** Null when it holds no message. */
  lastSeq: number | null
  firstReceivedMs: number | null
  pipes: PipeInSegment[]
}

/** Everything but the messages. */
export function readSegmentContent(db: Database.Database): SegmentContent {
  const segment = db.prepare('SELECT begun_clock_ms, last_clock_ms FROM segment').get() as {
    begun_clock_ms: number
    last_clock_ms: number | null
  }
  const newest = db.prepare('SELECT max(seq) FROM message').pluck().get() as number | null
  const oldest = db.prepare('SELECT received_ms FROM message ORDER BY seq LIMIT 1').pluck().get() as
    | number
    | undefined
  const pipes = db
    .prepare(
      `SELECT p.no, p.pipe_id, p.base_seq, p.base_messages, p.base_records, p.base_bytes,
              m.seq, m.messages, m.records, m.bytes
       FROM pipe p LEFT JOIN message m ON m.seq = (SELECT max(seq) FROM message WHERE pipe = p.no)
       ORDER BY p.no`,
    )
    .raw()
    .all() as number[][]
  return {
    begunClockMs: segment.begun_clock_ms,
    sealedClockMs: segment.last_clock_ms,
    lastSeq: newest,
    firstReceivedMs: oldest ?? null,
    pipes: pipes.map(decodePipe),
  }
}

function decodePipe(row: unknown[]): PipeInSegment {
  const [no, pipeId, baseSeq, baseMessages, baseRecords, baseBytes, seq, messages, records, bytes] = row as [
    number,
    string,
    number,
    number,
    number,
    number,
    number | null,
    number,
    number,
    number,
  ]
  const base = { seq: baseSeq, messages: baseMessages, records: baseRecords, bytes: baseBytes }
  return { no, pipeId, base, last: seq === null ? base : { seq, messages, records, bytes } }
}

/** `lastClockMs` is for a segment that does not know its own. */
export function segmentFacts(
  firstSeq: number,
  bytes: number,
  content: SegmentContent,
  lastClockMs: number,
): SegmentFacts {
  const pipes: SegmentFacts['pipes'] = new Map()
  let messages = 0
  for (const { pipeId, base, last } of content.pipes) {
    if (last.seq === base.seq) continue
    pipes.set(pipeId, { lastSeq: last.seq, messages: last.messages - base.messages })
    messages += last.messages - base.messages
  }
  return {
    firstSeq,
    bytes,
    messages,
    firstReceivedMs: content.firstReceivedMs,
    lastClockMs: content.sealedClockMs ?? lastClockMs,
    pipes,
  }
}

export function openReadOnly(dir: string, firstSeq: number): Database.Database {
  return new Database(segmentFile(dir, firstSeq), { readonly: true, fileMustExist: true })
}
