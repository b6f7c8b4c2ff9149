/**
 * The facts that retention needs about a segment. They are read once when the buffer is opened, with one index lookup
 * per pipe; the writer maintains the facts of the segments that it writes.
 */
import type Database from 'better-sqlite3'
import { onFile } from '../../platform/storage-error.ts'
import type { BufferIdentity } from '../buffer.ts'
import { hasPipeIndex, type SegmentName } from './layout.ts'
import type { PipeInSegment, PipePosition } from './position.ts'
import {
  isSalvaged,
  openReadOnly,
  requireKnownFormat,
  type SegmentIdentity,
  type SeqRange,
} from './segment-file.ts'
import { isUnusable, UnknownFormatError } from './sqlite-errors.ts'

export interface SegmentFacts extends SegmentName {
  /** Null when it cannot be read, or when the segment was written in this run. */
  identity: SegmentIdentity | null
  /**
   * The newest seq of all pipes, including messages that compaction removed. One less than the first seq when the
   * segment never had a message.
   */
  lastSeq: number
  /** Disk space, including the WAL. */
  bytes: number
  firstReceivedMs: number | null
  /** The buffer's clock at the commit of the last message, or slightly later. */
  lastClockMs: number
  /** The pipes with messages in this segment. */
  pipes: Map<string, PipeFacts>
}

export interface PipeFacts {
  /** The position just before this segment's first message of the pipe. */
  baseSeq: number
  lastSeq: number
  messages: number
  bytes: number
  /** The messages up to the watermark of the last lookup, if that is within the segment. */
  delivered?: { throughSeq: number; messages: number; bytes: number }
}

/** The mean size of the messages in a segment with these pipes; 0 when it has none. */
export function meanMessageBytes(pipes: readonly PipeInSegment[]): number {
  let [messages, bytes] = [0, 0]
  for (const { base, last } of pipes) {
    messages += last.messages - base.messages
    bytes += last.bytes - base.bytes
  }
  return messages === 0 ? 0 : bytes / messages
}

export interface SegmentContent {
  identity: SegmentIdentity
  /** See `markSalvaged`. */
  isSalvaged: boolean
  holes: SeqRange[]
  begunClockMs: number
  /** Null while the segment is not sealed, and when the disk was too full to record it. */
  sealedClockMs: number | null
  /** See SegmentFacts. Null when the segment holds no message and does not state it. */
  lastSeq: number | null
  firstReceivedMs: number | null
  pipes: PipeInSegment[]
}

/**
 * Null when the file cannot be read, is not the segment that its name says, or has another owner. Throws errors that the
 * file did not cause.
 */
export function readContentIfUsable(
  dir: string,
  name: SegmentName,
  owner: BufferIdentity | null,
): SegmentContent | null {
  let db: Database.Database | null = null
  try {
    db = openReadOnly(dir, name)
    const content = readSegmentContent(db)
    return isInPlace(content, name, owner) ? content : null
  } catch (error) {
    if (!isUnusable(error)) throw error
    return null
  } finally {
    db?.close()
  }
}

function isInPlace(
  { identity, lastSeq }: SegmentContent,
  { firstSeq }: SegmentName,
  owner: BufferIdentity | null,
): boolean {
  if (lastSeq !== null && lastSeq < firstSeq - 1) return false
  const { dataDirId } = identity
  return (
    identity.firstSeq === firstSeq && (owner === null || dataDirId === null || dataDirId === owner.dataDirId)
  )
}

/** Reads everything except the messages. */
export function readSegmentContent(db: Database.Database): SegmentContent {
  return onFile('reading', db.name, () => contentOf(db))
}

function contentOf(db: Database.Database): SegmentContent {
  const segment = db.prepare('SELECT begun_clock_ms, last_clock_ms, last_seq FROM segment').get() as
    | { begun_clock_ms: number; last_clock_ms: number | null; last_seq: number | null }
    | undefined
  if (segment === undefined) throw new UnknownFormatError(`${db.name}: a segment that says nothing of itself`)
  requireKnownFormat(db)
  const newest = db.prepare('SELECT max(seq) FROM message').pluck().get() as number | null
  const oldest = db.prepare('SELECT received_ms FROM message ORDER BY seq LIMIT 1').pluck().get() as
    | number
    | undefined
  const pipes = db
    .prepare(
      `WITH newest AS MATERIALIZED (SELECT pipe, max(seq) AS seq FROM message GROUP BY pipe)
       SELECT p.no, p.pipe_id, p.base_seq, p.base_messages, p.base_records, p.base_bytes,
              m.seq, m.messages, m.records, m.bytes
       FROM pipe p LEFT JOIN message m ON m.seq = ${newestOf(db)} ORDER BY p.no`,
    )
    .raw()
    .all() as number[][]
  return {
    identity: readIdentity(db),
    isSalvaged: isSalvaged(db),
    holes: readHoles(db),
    begunClockMs: segment.begun_clock_ms,
    sealedClockMs: segment.last_clock_ms,
    lastSeq: segment.last_seq ?? newest,
    firstReceivedMs: oldest ?? null,
    pipes: pipes.map(decodePipe),
  }
}

/**
 * True when the next segment's totals include messages that should be at the end of this one and are not: an index or
 * the table is damaged. `behind` has each pipe's position in the next segment, before its first message there.
 */
export function lacksEnd(
  content: Pick<SegmentContent, 'isSalvaged' | 'lastSeq' | 'pipes'>,
  behind: ReadonlyMap<string, PipePosition>,
): boolean {
  const { isSalvaged: isKnown, lastSeq, pipes } = content
  return (
    !isKnown &&
    pipes.some(({ pipeId, last }) => {
      const next = behind.get(pipeId)
      // A last message that is in another, missing segment proves nothing.
      return next !== undefined && next.seq <= (lastSeq ?? 0) && next.messages > last.messages
    })
  )
}

/** The seq of a pipe's newest message: one index lookup, or in a segment without the index one scan for all pipes. */
function newestOf(db: Database.Database): string {
  return hasPipeIndex(db)
    ? '(SELECT max(seq) FROM message WHERE pipe = p.no)'
    : '(SELECT seq FROM newest WHERE pipe = p.no)'
}

function readIdentity(db: Database.Database): SegmentIdentity {
  const columns = `segment_id AS segmentId, data_dir_id AS dataDirId, epoch, first_seq AS firstSeq,
                   previous_segment_id AS previousSegmentId`
  return db.prepare(`SELECT ${columns} FROM segment`).get() as SegmentIdentity
}

export function readHoles(db: Database.Database): SeqRange[] {
  return db
    .prepare('SELECT first_seq AS firstSeq, last_seq AS lastSeq FROM hole ORDER BY first_seq')
    .all() as SeqRange[]
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

type FactsInContent = Pick<SegmentContent, 'sealedClockMs' | 'lastSeq' | 'firstReceivedMs' | 'pipes'> &
  Pick<SegmentFacts, 'identity'>

/** `lastClockMs` is used for a segment that does not state its own. */
export function segmentFacts(
  name: SegmentName,
  bytes: number,
  content: FactsInContent,
  lastClockMs: number,
): SegmentFacts {
  const pipes: SegmentFacts['pipes'] = new Map()
  for (const { pipeId, base, last } of content.pipes) {
    if (last.seq === base.seq) continue
    const counts = { messages: last.messages - base.messages, bytes: last.bytes - base.bytes }
    pipes.set(pipeId, { baseSeq: base.seq, lastSeq: last.seq, ...counts })
  }
  const { identity, firstReceivedMs, sealedClockMs } = content
  return {
    ...name,
    identity,
    bytes,
    firstReceivedMs,
    pipes,
    lastSeq: content.lastSeq ?? name.firstSeq - 1,
    lastClockMs: sealedClockMs ?? lastClockMs,
  }
}
