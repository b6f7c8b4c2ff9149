/**
 * Locates a pipe's messages in the segments: by seq, by time, the first and the last. Each call reads the list of
 * segments and does a few index lookups; it reads no messages.
 */
import type { Heads } from '../buffer.ts'
import type { OpenSegments } from './open-segments.ts'
import { type PipePosition, zeroPosition } from './position.ts'
import type { SegmentConnection } from './segment-connection.ts'

/** Requests overtake each other between acceptance and commit, so received times are sorted only up to this tolerance. */
const receivedSlackMs = 5_000

/** The segments that can hold messages after `cursor`. */
export function segmentsFrom(segments: OpenSegments, cursor: number): readonly number[] {
  const names = segments.names()
  return names.slice(Math.max(0, indexAt(names, cursor + 1)))
}

/** Index of the newest segment that begins at or before `seq`; −1 when all are newer. */
export function indexAt(names: readonly number[], seq: number): number {
  let low = 0
  let high = names.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((names[middle] ?? 0) <= seq) low = middle + 1
    else high = middle
  }
  return low - 1
}

export function head(segments: OpenSegments, pipeId: string): PipePosition {
  while (segments.findNewer());
  return positionAt(segments, pipeId, Number.MAX_SAFE_INTEGER)
}

/** The newest segment stores the head of every pipe at the segment's start. */
export function heads(segments: OpenSegments, afterSeq: number): Heads | null {
  while (segments.findNewer());
  const newest = segments.names().at(-1)
  if (newest === undefined) return null
  const segment = segments.open(newest)
  const newestSeq = segment.lastSeq() ?? newest - 1
  return newestSeq > afterSeq ? { newestSeq, pipes: segment.heads() } : null
}

/** Every segment stores each pipe's position at its start, so one segment is enough. */
export function positionAt(segments: OpenSegments, pipeId: string, seq: number): PipePosition {
  const names = segments.names()
  const firstSeq = names[Math.max(0, indexAt(names, seq))]
  if (firstSeq === undefined) return zeroPosition
  const segment = segments.open(firstSeq)
  const pipe = segment.pipe(pipeId)
  if (pipe === null) return zeroPosition
  return segment.positionAt(pipe.no, seq) ?? pipe.base
}

/**
 * Retention can drop a segment from the middle, when everything in it is delivered but an older one is not, and
 * compaction can remove the beginning of a pipe from one. For pipes with messages there, everything older counts as
 * dropped too: a cursor from before the hole would skip it. So the earliest position is at the start of the segment
 * after the pipe's newest hole, otherwise at the start of the oldest segment.
 *
 * A segment that is missing without having been dropped does not hide older messages: readers report the gap.
 */
export function findEarliest(segments: OpenSegments, pipeId: string): PipePosition {
  const names = segments.names()
  const newest = names.at(-1)
  if (newest === undefined) return zeroPosition
  const holes = segments.open(newest).holes()
  for (let index = names.length - 1; index > 0; index -= 1) {
    const [older, newer] = [names[index - 1], names[index]]
    if (older === undefined || newer === undefined) break
    const base = segments.open(newer).pipe(pipeId)?.base
    // A pipe without a position here has its first message, if any, in a newer segment.
    if (base === undefined || base.seq < older) continue
    const isCompacted = base.seq >= newer
    const isDropped = holes.some(({ firstSeq, lastSeq }) => firstSeq <= base.seq && base.seq <= lastSeq)
    if (isCompacted || isDropped) return base
  }
  const oldest = names[0]
  return (oldest === undefined ? null : segments.open(oldest).pipe(pipeId)?.base) ?? zeroPosition
}

/** The position just before the pipe's first message after `seq`, from that message's totals; null when there is none. */
export function nextAfter(segments: OpenSegments, pipeId: string, seq: number): PipePosition | null {
  while (segments.findNewer());
  for (const firstSeq of segmentsFrom(segments, seq)) {
    const segment = segments.open(firstSeq)
    const pipe = segment.pipe(pipeId)
    if (pipe === null) continue
    const next = segment.firstAfter(pipe.no, seq)
    const position = next && segment.positionAt(pipe.no, next.seq)
    if (position !== null) return { ...position, seq: position.seq - 1, messages: position.messages - 1 }
  }
  return null
}

/** Seq of the first message received at `timeMs` or later; null when there is none. */
export function firstReceivedFrom(segments: OpenSegments, pipeId: string, timeMs: number): number | null {
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

/**
 * Binary search over seq: returns a cursor up to which, if times were sorted, every message was received before
 * `timeMs`.
 */
function lastBefore(segment: SegmentConnection, pipeNo: number, firstSeq: number, timeMs: number): number {
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
