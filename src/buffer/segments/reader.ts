/**
 * Reads the segments for delivery: BufferReader over files that another thread writes, seals and unlinks meanwhile.
 *
 * Every method is one synchronous pass over the list of segments. A segment that is gone when it is to be opened
 * means the list is old: it is read anew and the pass begins again.
 */
import { crc32 } from 'node:zlib'
import type { Logger } from '../../log.ts'
import type { BufferReader, MessageRun, PipePosition, ReadLimits } from '../buffer.ts'
import { type OpenSegments, openSegments } from './open-segments.ts'
import { quarantine } from './quarantine.ts'
import type { SegmentReader, StoredRow } from './segment-reader.ts'
import { isGone } from './sqlite-errors.ts'

const nowhere: PipePosition = { seq: 0, messages: 0, records: 0, bytes: 0 }
/** Requests overtake each other between their acceptance and their commit: received times are sorted but for this. */
const receivedSlackMs = 5_000

export interface BufferReaderOptions {
  dir: string
  quarantineDir: string
  log: Logger
}

/** The directory must exist (the writer makes it). */
export function openBufferReader(options: BufferReaderOptions): BufferReader {
  /** A pipe's floor changes only when the list of segments does. */
  const floors = new Map<string, PipePosition>()
  const segments = openSegments(options.dir, () => floors.clear())

  function attempt<T>(pass: () => T): T {
    for (let tries = 0; ; tries += 1) {
      try {
        return pass()
      } catch (error) {
        if (!isGone(error) || tries >= 10) throw error
        segments.refresh()
      }
    }
  }

  function floor(pipeId: string): PipePosition {
    const known = floors.get(pipeId)
    if (known !== undefined) return known
    const found = findFloor(segments, pipeId)
    floors.set(pipeId, found)
    return found
  }

  function onDamaged(pipeId: string, row: StoredRow): void {
    const fields = { pipe_id: pipeId, msg_id: row.msgId, stream_seq: row.seq, records: row.recordCount }
    try {
      if (!quarantine(options.quarantineDir, pipeId, row)) return
      options.log.error(fields, 'buffer.message_damaged')
    } catch (error) {
      // It is reported and not delivered all the same; its bytes stay in the segment for as long as that is kept.
      options.log.error({ ...fields, err: error }, 'buffer.quarantine_failed')
    }
  }

  return {
    async read(pipeId, afterSeq, limits) {
      return attempt(() => readRun(segments, pipeId, afterSeq, limits, (row) => onDamaged(pipeId, row)))
    },
    async head(pipeId) {
      return attempt(() => head(segments, pipeId))
    },
    async positionAt(pipeId, seq) {
      return attempt(() => {
        const position = positionAt(segments, pipeId, seq)
        const oldest = floor(pipeId)
        return position.seq < oldest.seq ? oldest : position
      })
    },
    async floor(pipeId) {
      return attempt(() => floor(pipeId))
    },
    async cursorAtTime(pipeId, timeMs) {
      return attempt(() => {
        const first = firstReceivedFrom(segments, pipeId, timeMs)
        const cursor = first === null ? head(segments, pipeId).seq : first - 1
        return Math.max(cursor, floor(pipeId).seq)
      })
    },
    async close() {
      segments.close()
    },
  }
}

/** Collects across segments until a limit is reached or there is no more. */
function readRun(
  segments: OpenSegments,
  pipeId: string,
  afterSeq: number,
  limits: ReadLimits,
  onDamaged: (row: StoredRow) => void,
): MessageRun {
  const run: MessageRun = { messages: [], more: false, damaged: [] }
  const throughSeq = limits.throughSeq ?? Number.MAX_SAFE_INTEGER
  let cursor = afterSeq
  let records = 0
  let bytes = 0

  /** True when the run is full. */
  function collect(segment: SegmentReader, pipeNo: number): boolean {
    for (const row of segment.rows(pipeNo, cursor, throughSeq)) {
      const { seq, msgId, receivedMs, recordCount, body } = row
      const isFirst = run.messages.length === 0
      const fits = records + recordCount <= limits.maxRecords && bytes + body.length <= limits.maxBytes
      if (!isFirst && !fits) return true
      cursor = seq
      if (crc32(body) !== row.crc) {
        run.damaged.push({ seq, msgId, recordCount })
        onDamaged(row)
        continue
      }
      records += recordCount
      bytes += body.length
      run.messages.push({ seq, pipeId, msgId, receivedMs, recordCount, body })
    }
    return false
  }

  do {
    // From the cursor's own segment: it may have got messages between the last look and being sealed.
    for (const firstSeq of segmentsFrom(segments, cursor)) {
      if (firstSeq > throughSeq) return run
      const segment = segments.open(firstSeq)
      const pipe = segment.pipe(pipeId)
      if (pipe !== null && collect(segment, pipe.no)) {
        run.more = true
        return run
      }
    }
  } while (segments.findNewer())
  return run
}

/** The segments that can hold a message after `cursor`. */
function segmentsFrom(segments: OpenSegments, cursor: number): readonly number[] {
  const names = segments.names()
  return names.slice(Math.max(0, indexAt(names, cursor + 1)))
}

/** Index of the newest segment that begins at or before `seq`; −1 when all are newer. */
function indexAt(names: readonly number[], seq: number): number {
  let low = 0
  let high = names.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((names[middle] ?? 0) <= seq) low = middle + 1
    else high = middle
  }
  return low - 1
}

function head(segments: OpenSegments, pipeId: string): PipePosition {
  while (segments.findNewer());
  return positionAt(segments, pipeId, Number.MAX_SAFE_INTEGER)
}

/** Every segment knows each pipe's position just before it, so one segment is enough. */
function positionAt(segments: OpenSegments, pipeId: string, seq: number): PipePosition {
  const names = segments.names()
  const firstSeq = names[Math.max(0, indexAt(names, seq))]
  if (firstSeq === undefined) return nowhere
  const segment = segments.open(firstSeq)
  const pipe = segment.pipe(pipeId)
  if (pipe === null) return nowhere
  return segment.positionAt(pipe.no, seq) ?? pipe.base
}

/**
 * Retention can drop a segment from the middle, when everything in it is delivered but an older one is not. For the
 * pipes that had messages in it, what is older counts as gone too: a cursor from before the hole would skip it.
 * So: the position before the segment after the pipe's newest hole, else before the oldest segment.
 */
function findFloor(segments: OpenSegments, pipeId: string): PipePosition {
  const names = segments.names()
  for (let index = names.length - 1; index > 0; index -= 1) {
    const [older, newer] = [names[index - 1], names[index]]
    if (older === undefined || newer === undefined) break
    const base = segments.open(newer).pipe(pipeId)?.base
    // Not there: its first message, if any, is newer.
    if (base === undefined) continue
    if (base.seq < older) continue
    const lastInOlder = positionAt(segments, pipeId, newer - 1)
    if (lastInOlder.seq !== base.seq) return base
  }
  const oldest = names[0]
  return (oldest === undefined ? null : segments.open(oldest).pipe(pipeId)?.base) ?? nowhere
}

/** Seq of the first message received at `timeMs` or later; null when there is none. */
function firstReceivedFrom(segments: OpenSegments, pipeId: string, timeMs: number): number | null {
  while (segments.findNewer());
  const sureMs = timeMs - receivedSlackMs
  const names = segments.names()
  let index = names.length - 1
  for (; index > 0; index -= 1) {
    const segment = segments.open(names[index] ?? 0)
    const pipe = segment.pipe(pipeId)
    const first = pipe === null ? null : segment.firstAfter(pipe.no, 0)
    if (first !== null && first.receivedMs < sureMs) break
  }
  for (const firstSeq of names.slice(Math.max(0, index))) {
    const segment = segments.open(firstSeq)
    const pipe = segment.pipe(pipeId)
    if (pipe === null) continue
    const sureCursor = lastBefore(segment, pipe.no, firstSeq, sureMs)
    const first = segment.firstAfter(pipe.no, sureCursor, timeMs)
    if (first !== null) return first.seq
  }
  return null
}

/** Binary search over seq: a cursor with only messages received before `timeMs` up to it, were times sorted. */
function lastBefore(segment: SegmentReader, pipeNo: number, firstSeq: number, timeMs: number): number {
  let low = firstSeq - 1
  let high = segment.lastSeq() ?? low
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const next = segment.firstAfter(pipeNo, middle)
    if (next !== null && next.seq <= high && next.receivedMs < timeMs) low = next.seq
    else high = middle
  }
  return low
}
