/**
 * Reads the segments for delivery: BufferReader over files that another thread writes, seals and unlinks meanwhile.
 *
 * Every method is one synchronous pass over the list of segments. When a segment is gone, the list is outdated: it is
 * read again and the pass restarts. A damaged segment is reported to the writer, and the pass restarts once its
 * readable content is in a new generation.
 *
 * The feed at the end wakes readers after a commit, and takes their reports to the writer.
 */
import { existsSync } from 'node:fs'
import { BroadcastChannel } from 'node:worker_threads'
import type { Logger } from '../../platform/log.ts'
import {
  type Backlog,
  type BufferFeed,
  type BufferReader,
  BufferReadUnavailableError,
  type Cursor,
  type Heads,
  type LowWatermark,
  type MessageRun,
  type ReadLimits,
} from '../buffer.ts'
import { type SegmentName, segmentFile } from './layout.ts'
import {
  findEarliest,
  firstReceivedFrom,
  head,
  heads,
  indexAt,
  nextAfter,
  OpenSegments,
  positionAt,
  segmentsFrom,
} from './open-segments.ts'
import { countsOf, cursorOf, difference, justBefore, type PipePosition, Place } from './position.ts'
import type { SegmentsSpec } from './protocol.ts'
import { quarantine, type SegmentConnection, type SegmentPipe, type StoredRow } from './segment-connection.ts'
import { isGone, isUnusable } from './sqlite-errors.ts'

type ReaderSpec = Pick<SegmentsSpec, 'dir' | 'quarantineDir' | 'channel'>

/** The directory must exist; the writer creates it. */
export function openSegmentReader(spec: ReaderSpec, log: Logger): BufferReader {
  return new SegmentReader(spec, log)
}

class SegmentReader implements BufferReader {
  readonly #quarantineDir: string
  readonly #log: Logger
  readonly #segments: OpenSegments
  /** A pipe's earliest position changes only when the list of segments changes. */
  readonly #earliest = new Map<string, PipePosition>()

  readonly #damage: DamageReports

  constructor(spec: ReaderSpec, log: Logger) {
    const { dir, quarantineDir } = spec
    this.#quarantineDir = quarantineDir
    this.#log = log
    this.#damage = new DamageReports(spec)
    this.#segments = new OpenSegments(dir, () => this.#earliest.clear())
  }

  async read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    const onDamaged = (row: StoredRow) => this.#onDamaged(pipeId, row)
    return this.#pass(() => readRun(this.#segments, { pipeId, afterSeq }, limits, onDamaged))
  }

  async head(pipeId: string): Promise<Cursor> {
    return cursorOf(await this.#pass(() => head(this.#segments, pipeId)))
  }

  async heads(afterSeq: number): Promise<Heads | null> {
    return this.#pass(() => heads(this.#segments, afterSeq))
  }

  async earliest(pipeId: string): Promise<Cursor> {
    return cursorOf(await this.#pass(() => this.#earliestOf(pipeId)))
  }

  async cursorAt(pipeId: string, seq: number): Promise<Cursor> {
    return cursorOf(await this.#pass(() => this.#positionAt(pipeId, seq)))
  }

  async cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    return this.#pass(() => {
      const first = firstReceivedFrom(this.#segments, pipeId, timeMs)
      const cursor = first === null ? head(this.#segments, pipeId).seq : first - 1
      return Math.max(cursor, this.#earliestOf(pipeId).seq)
    })
  }

  async backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog> {
    const to = await this.#pass(() =>
      throughSeq === undefined ? head(this.#segments, pipeId) : this.#positionAt(pipeId, throughSeq),
    )
    return difference(to, after)
  }

  async relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }> {
    return this.#pass(() => {
      const counted = countsOf(cursor.mark).messages
      // The message after a cursor has at least the cursor's count, unless the end of the log was lost and written
      // again.
      const next = nextAfter(this.#segments, pipeId, cursor.seq)
      const missing = counted - (next?.messages ?? head(this.#segments, pipeId).messages)
      if (missing <= 0) return { cursor, missing: 0 }
      const { mark } = cursorOf(positionAt(this.#segments, pipeId, cursor.seq))
      return { cursor: { seq: cursor.seq, mark }, missing }
    })
  }

  async pipeIds(): Promise<string[]> {
    return this.#pass(() => {
      while (this.#segments.findNewer());
      const newest = this.#segments.names().at(-1)
      return newest === undefined ? [] : this.#segments.open(newest).pipeIds()
    })
  }

  async close(): Promise<void> {
    this.#damage.close()
    this.#segments.close()
  }

  async #pass<T>(pass: () => T): Promise<T> {
    for (let tries = 0; ; tries += 1) {
      try {
        return pass()
      } catch (error) {
        const name = this.#segments.lastOpened
        if (isUnusable(error) && name !== null) {
          this.#segments.leave(name.firstSeq)
          await this.#damage.untilChanged(name, error)
          tries = 0
        } else if (!isGone(error) || tries >= 10) {
          throw error
        }
        this.#segments.refresh()
      }
    }
  }

  #earliestOf(pipeId: string): PipePosition {
    const found = this.#earliest.get(pipeId) ?? findEarliest(this.#segments, pipeId)
    this.#earliest.set(pipeId, found)
    return found
  }

  /** Clamped to the messages that are kept. */
  #positionAt(pipeId: string, seq: number): PipePosition {
    const position = positionAt(this.#segments, pipeId, seq)
    const earliest = this.#earliestOf(pipeId)
    return position.seq < earliest.seq ? earliest : position
  }

  #onDamaged(pipeId: string, row: StoredRow): void {
    const fields = { pipe_id: pipeId, msg_id: row.msgId, stream_seq: row.seq, records: row.recordCount }
    try {
      if (!quarantine(this.#quarantineDir, pipeId, row)) return
      this.#log.error(fields, 'buffer.message_damaged')
    } catch (error) {
      // The message is still reported and not delivered; its bytes stay in the segment until that is dropped.
      this.#log.error({ ...fields, err: error }, 'buffer.quarantine_failed')
    }
  }
}

/** Collects messages across segments until a limit is reached, messages are missing, or none are left. */
function readRun(
  segments: OpenSegments,
  { pipeId, afterSeq }: { pipeId: string; afterSeq: number },
  limits: ReadLimits,
  onDamaged: (row: StoredRow) => void,
): MessageRun {
  const run: MessageRun = { messages: [], more: false, damaged: [], lost: [] }
  const throughSeq = limits.throughSeq ?? Number.MAX_SAFE_INTEGER
  const place = new Place(afterSeq, limits.afterMark ?? null)
  const reading = { run, place, isMarked: (limits.afterMark ?? null) !== null }
  let records = 0
  let bytes = 0

  /** Returns true when the run is full, or when messages are missing. */
  function collect(firstSeq: number, segment: SegmentConnection, pipe: SegmentPipe): boolean {
    if (endsBeforeSegment(reading, segments, firstSeq, pipe)) return true
    const left = { records: limits.maxRecords - records, bytes: limits.maxBytes - bytes }
    for (const row of segment.rows(pipe, place.seq, throughSeq, left)) {
      const { seq, msgId, receivedMs, recordCount, body, mark } = row
      segment.checkOrder(row, place.seq)
      const isFirst = run.messages.length === 0
      const fits = records + recordCount <= limits.maxRecords && bytes + body.length <= limits.maxBytes
      if (!isFirst && !fits) return true
      if (!segment.isIntact(row)) {
        segment.checkPipe(pipe, row)
        run.damaged.push({ seq, msgId, recordCount, mark: place.passDamaged(row) })
        onDamaged(row)
        continue
      }
      if (endsBeforeRow(reading, segment, pipe, row)) return true
      place.pass(row)
      records += recordCount
      bytes += body.length
      run.messages.push({ seq, pipeId, msgId, receivedMs, recordCount, body, mark })
    }
    return false
  }

  do {
    // Starts at the cursor's own segment, which can have received messages between the last read and its sealing.
    for (const firstSeq of segmentsFrom(segments, place.seq)) {
      if (firstSeq > throughSeq) return run
      const segment = segments.open(firstSeq)
      const pipe = segment.pipe(pipeId)
      if (pipe !== null && collect(firstSeq, segment, pipe)) {
        run.more = true
        return run
      }
    }
  } while (segments.findNewer())
  return run
}

interface Reading {
  run: MessageRun
  place: Place
  /** The mark of the start cursor is known. */
  isMarked: boolean
}

/** Returns true when the run ends because messages are missing before the first one of this segment. */
function endsBeforeSegment(
  reading: Reading,
  segments: OpenSegments,
  firstSeq: number,
  pipe: SegmentPipe,
): boolean {
  if (!reading.place.misses(pipe.base)) return false
  checkSegmentBefore(segments, firstSeq, pipe)
  return endsBeforeLost(reading, pipe.base)
}

/** The same before a row. */
function endsBeforeRow(
  reading: Reading,
  segment: SegmentConnection,
  pipe: SegmentPipe,
  row: StoredRow,
): boolean {
  if (!reading.place.missesBefore(row)) return false
  segment.checkLostBefore(pipe, row, reading.place.seq)
  return endsBeforeLost(reading, justBefore(row))
}

/** Without a mark, the run passes what is lost before its first message: its reader might know no way past a gap. */
function endsBeforeLost({ run, place, isMarked }: Reading, to: PipePosition): boolean {
  if (run.messages.length === 0 && !isMarked) {
    place.pass(to)
    return false
  }
  run.lost.push({ firstSeq: place.seq + 1, to: cursorOf(to), messages: to.messages - place.messages })
  return true
}

/**
 * Checks the end that the previous segment states. If that segment was salvaged, the messages are lost; otherwise they
 * can still be in it.
 */
function checkSegmentBefore(segments: OpenSegments, firstSeq: number, pipe: SegmentPipe): void {
  const names = segments.names()
  const before = names[indexAt(names, pipe.base.seq)]
  if (before !== undefined && before < firstSeq) segments.open(before).checkLostAtEnd(pipe)
}

const lookEveryMs = 50
/** The report is repeated: the writer might not have listened yet, or might have had no space. */
const repeatEveryMs = 1_000
/** On a full disk a salvage waits for space. After this time lanes get an error, which users can see, and ask again. */
const longestWaitMs = 60_000
/** A segment that cannot be read even after it was salvaged this often is a bug of ours. */
const maxReports = 3

export class DamageReports {
  readonly #dir: string
  readonly #feed: FeedChannel
  readonly #longestWaitMs: number
  readonly #reported = new Map<number, number>()
  #isClosed = false

  constructor({ dir, channel }: Pick<SegmentsSpec, 'dir' | 'channel'>, longest = longestWaitMs) {
    this.#dir = dir
    this.#longestWaitMs = longest
    this.#feed = new FeedChannel(channel)
  }

  /**
   * Rejects with the error when it recurs too often or the reader is closed, and with BufferReadUnavailableError when
   * the file has not changed within a minute.
   */
  async untilChanged({ firstSeq, generation }: SegmentName, error: unknown): Promise<void> {
    const reports = (this.#reported.get(firstSeq) ?? 0) + 1
    if (reports > maxReports) throw error
    const file = segmentFile(this.#dir, { firstSeq, generation })
    for (let waitedMs = 0; existsSync(file); waitedMs += lookEveryMs) {
      if (this.#isClosed) throw error
      if (waitedMs >= this.#longestWaitMs)
        throw new BufferReadUnavailableError(`${file} is damaged and not salvaged yet`, error)
      if (waitedMs % repeatEveryMs === 0) {
        this.#feed.post({ kind: 'segment_damaged', firstSeq, generation, error: String(error) })
      }
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
    // Several reads can have waited for the same salvage.
    this.#reported.set(firstSeq, reports)
    setTimeout(() => this.#reported.delete(firstSeq), 60_000).unref()
  }

  close(): void {
    this.#isClosed = true
    this.#feed.close()
  }
}

/**
 * The feed between the writer and its listeners: see BufferFeed. It is a BroadcastChannel, so that any thread can join
 * by the name in the spec. Earlier messages are not repeated for a new listener: join first, then read.
 */
export type FeedMessage =
  | { kind: 'committed'; pipes: [pipeId: string, seq: number][] }
  | { kind: 'dropped' }
  | { kind: 'erased' }
  | { kind: 'report_wanted' }
  | { kind: 'watermarks'; watermarks: readonly LowWatermark[] }
  | { kind: 'pipe_deleted'; pipeId: string }
  | { kind: 'segment_damaged'; firstSeq: number; generation: number; error: string }

export function openSegmentFeed({ channel }: Pick<SegmentsSpec, 'channel'>): BufferFeed {
  const feed = new FeedChannel(channel)
  const onCommitted: Parameters<BufferFeed['onCommitted']>[0][] = []
  const onDropped: (() => void)[] = []
  const onErased: (() => void)[] = []
  const onReportWanted: (() => void)[] = []
  feed.listen((message) => {
    if (message.kind === 'committed') for (const listener of onCommitted) listener(message.pipes)
    else if (message.kind === 'dropped') callAll(onDropped)
    else if (message.kind === 'erased') callAll(onErased)
    else if (message.kind === 'report_wanted') callAll(onReportWanted)
  })
  return {
    onCommitted: (listener) => void onCommitted.push(listener),
    onDropped: (listener) => void onDropped.push(listener),
    onErased: (listener) => void onErased.push(listener),
    onReportWanted: (listener) => void onReportWanted.push(listener),
    reportLowWatermarks: (watermarks) => feed.post({ kind: 'watermarks', watermarks }),
    pipeDeleted: (pipeId) => feed.post({ kind: 'pipe_deleted', pipeId }),
    close: () => feed.close(),
  }
}

function callAll(listeners: readonly (() => void)[]): void {
  for (const listener of listeners) listener()
}

/** The typed channel. The writer and every opened feed have one; none receives its own messages. */
export class FeedChannel {
  readonly #channel: BroadcastChannel

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name)
    // Listening alone must not keep a thread alive.
    this.#channel.unref()
  }

  listen(listener: (message: FeedMessage) => void): void {
    this.#channel.onmessage = (event) => listener((event as { data: FeedMessage }).data)
  }

  post(message: FeedMessage): void {
    this.#channel.postMessage(message)
  }

  close(): void {
    this.#channel.close()
  }
}
