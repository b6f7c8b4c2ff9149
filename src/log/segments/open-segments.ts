/**
 * A reader's view of the segments: the list of names, and connections that are opened when needed and closed when idle.
 *
 * Segments are added at the end, dropped anywhere and renamed by compaction, all without notice to the reader. The
 * segment after the newest known one is named (its last seq + 1), so trying to open that file is enough to find it. A
 * connection to a dropped file still reads the old content, which is never less than the current content. It holds the
 * disk space, so it is closed within a second.
 *
 * A segment is sealed only while no reader has it open (see sealing.ts). So a segment that has a successor and still
 * has a WAL is closed after the caller's synchronous work, and opened again on demand. One that lacks its index cannot be
 * sealed, and stays open.
 *
 * The functions below the class find positions of a pipe in these segments.
 */
import { existsSync } from 'node:fs'
import type { Heads } from '../buffer.ts'
import { listSegments, type SegmentName, segmentFile } from './layout.ts'
import { type PipePosition, zeroPosition } from './position.ts'
import { openSegmentConnection, type SegmentConnection } from './segment-connection.ts'

const sweepEveryMs = 500
const idleMs = 30_000
const openAtMost = 64

interface OpenSegment {
  name: SegmentName
  connection: SegmentConnection
  usedMs: number
}

export class OpenSegments {
  readonly #dir: string
  readonly #onChanged: () => void
  #names: readonly SegmentName[]
  #firstSeqs: readonly number[]
  readonly #connections = new Map<number, OpenSegment>()
  #lastOpened: SegmentName | null = null
  readonly #sweep: NodeJS.Timeout

  /** `onChanged` is called whenever the list has changed. */
  constructor(dir: string, onChanged: () => void) {
    this.#dir = dir
    this.#onChanged = onChanged
    this.#names = listSegments(dir)
    this.#firstSeqs = this.#names.map(({ firstSeq }) => firstSeq)
    this.#sweep = setInterval(() => this.#keepUp(), sweepEveryMs)
    this.#sweep.unref()
  }

  /**
   * If the directory cannot be listed now (no file descriptors left), the next sweep lists it; a caller that reads gets
   * the error.
   */
  #keepUp(): void {
    this.#closeIdle()
    try {
      this.#closeWhere((firstSeq, connection) => this.#canBeSealed(firstSeq, connection))
      this.refresh()
    } catch {
      // Segments that are open can still be read.
    }
  }

  /** First seqs, ascending. Valid until the next refresh. */
  names(): readonly number[] {
    return this.#firstSeqs
  }

  /** Throws SQLITE_CANTOPEN when the segment is gone or was renamed. */
  open(firstSeq: number): SegmentConnection {
    const usedMs = Date.now()
    const found = this.#connections.get(firstSeq)
    if (found !== undefined) {
      found.usedMs = usedMs
      this.#lastOpened = found.name
      return found.connection
    }
    const name = this.#names.find((one) => one.firstSeq === firstSeq) ?? { firstSeq, generation: 0 }
    this.#lastOpened = name
    if (this.#connections.size >= openAtMost) this.#closeLongestIdle()
    const connection = openSegmentConnection(this.#dir, name)
    this.#connections.set(firstSeq, { name, connection, usedMs })
    if (this.#canBeSealed(firstSeq, connection)) queueMicrotask(() => this.#close(firstSeq))
    return connection
  }

  /** The segment that was opened last: an SQLite error refers to it. */
  get lastOpened(): SegmentName | null {
    return this.#lastOpened
  }

  /** Stops reading it until it is opened again. */
  leave(firstSeq: number): void {
    this.#close(firstSeq)
  }

  /** Returns true when there is a segment after the newest known one, after reading the list again. */
  findNewer(): boolean {
    const newest = this.#names.at(-1)
    if (newest !== undefined) {
      const lastSeq = this.open(newest.firstSeq).lastSeq()
      const next = lastSeq !== null && segmentFile(this.#dir, { firstSeq: lastSeq + 1, generation: 0 })
      const isOld = (next && existsSync(next)) || !existsSync(segmentFile(this.#dir, newest))
      if (!isOld) return false
    }
    this.refresh()
    return this.#names.at(-1)?.firstSeq !== newest?.firstSeq
  }

  refresh(): void {
    const listed = listSegments(this.#dir)
    const isSame =
      listed.length === this.#names.length &&
      listed.every(({ firstSeq, generation }, index) => {
        const known = this.#names[index]
        return firstSeq === known?.firstSeq && generation === known.generation
      })
    if (isSame) return
    const kept = new Map(listed.map(({ firstSeq, generation }) => [firstSeq, generation]))
    for (const { firstSeq, generation } of this.#names) {
      if (kept.get(firstSeq) !== generation) this.#close(firstSeq)
    }
    this.#names = listed
    this.#firstSeqs = listed.map(({ firstSeq }) => firstSeq)
    queueMicrotask(() => this.#closeWhere((firstSeq, connection) => this.#isUnsealed(firstSeq, connection)))
    this.#onChanged()
  }

  close(): void {
    clearInterval(this.#sweep)
    for (const firstSeq of [...this.#connections.keys()]) this.#close(firstSeq)
  }

  #close(firstSeq: number): void {
    this.#connections.get(firstSeq)?.connection.close()
    this.#connections.delete(firstSeq)
  }

  #isUnsealed(firstSeq: number, { hasWal }: SegmentConnection): boolean {
    return hasWal && !this.#isNewest(firstSeq)
  }

  /** The segment being written stays open, because opening it lists its messages again: see `PipeRows`. */
  #isNewest(firstSeq: number): boolean {
    return firstSeq === this.#firstSeqs.at(-1)
  }

  /** A segment that lacks its index is not sealed yet, and to open it again would list its messages again. */
  #canBeSealed(firstSeq: number, connection: SegmentConnection): boolean {
    return this.#isUnsealed(firstSeq, connection) && connection.isIndexed()
  }

  #closeWhere(isClosed: (firstSeq: number, connection: SegmentConnection) => boolean): void {
    for (const [firstSeq, { connection }] of [...this.#connections]) {
      if (isClosed(firstSeq, connection)) this.#close(firstSeq)
    }
  }

  #closeIdle(): void {
    const nowMs = Date.now()
    for (const [firstSeq, { usedMs }] of [...this.#connections]) {
      const isIdle = Math.abs(nowMs - usedMs) > idleMs
      if (isIdle && !this.#isNewest(firstSeq)) this.#close(firstSeq)
    }
  }

  #closeLongestIdle(): void {
    const closable = [...this.#connections].filter(([firstSeq]) => !this.#isNewest(firstSeq))
    const [oldest] = closable.sort(([, a], [, b]) => a.usedMs - b.usedMs)
    if (oldest !== undefined) this.#close(oldest[0])
  }
}

/**
 * Locates a pipe's messages in the segments: by seq, by time, the first and the last. Each call reads the list of
 * segments and does a few index lookups; it reads no messages.
 */

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
