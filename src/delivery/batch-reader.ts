/**
 * Reads the messages of a lane's next attempt: determines what is due, reserves memory, and counts lost messages.
 *
 * The order matters: the messages are read first, the earliest kept position second. Retention can drop segments at any
 * time. Messages dropped before the read show in that position; messages dropped later are already in memory. So each
 * message is either delivered or counted as dropped.
 */
import assert from 'node:assert'
import { descriptorOf } from '../destinations/drivers.ts'
import type {
  Backlog,
  BufferReader,
  Cursor,
  MarkedMessage,
  MessageRun,
  StoredMessage,
} from '../log/buffer.ts'
import type { FlushLimits, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import { bytesOf, closesInMs, cutBatch } from './batch.ts'
import type { Clock } from './clock.ts'
import type { MemoryReservation, WorkspaceMemory } from './memory-budget.ts'
import type { ReadAhead } from './read-ahead.ts'
import { afterDropped, withNextAsRange, withoutRange, withRange } from './transitions.ts'

/** The messages of the fixed range, followed by those that are searched for a failing message. */
export interface ReservedBatch {
  messages: MarkedMessage[]
  reservation: MemoryReservation
}

export type NextBatch =
  | { kind: 'batch'; row: LaneState; reserved: ReservedBatch }
  /** Nothing is due for `waitMs`; Infinity means until new messages arrive. */
  | { kind: 'wait'; row: LaneState; waitMs: number }
  /** Messages were lost. The row counts them; the caller tries again. */
  | DroppedMessages
  | { kind: 'interrupted'; row: LaneState }

export interface DroppedMessages {
  kind: 'dropped'
  row: LaneState
  dropped: number
  /** Dropped by retention, or lost in a damaged or missing part of the log. */
  reason: 'retention' | 'damaged'
  /** The range of lost messages, both ends included. */
  firstSeq: number
  lastSeq: number
}

export interface WaitForMemory {
  /** Called before a wait for memory, so that delivered messages are saved before the wait. */
  before(): Promise<void>
  signal: AbortSignal
}

const everything = { maxRecords: Number.MAX_SAFE_INTEGER, maxBytes: Number.MAX_SAFE_INTEGER }

export class BatchReader {
  readonly #pipeId: string
  readonly #reader: BufferReader
  readonly #budget: WorkspaceMemory
  readonly #clock: Clock
  /** The oldest undelivered message: its receive time, and the monotonic time since which it is known. */
  #oldest: { afterSeq: number; receivedMs: number; sinceMs: number } | null = null

  constructor(pipeId: string, reader: BufferReader, budget: WorkspaceMemory, clock: Clock) {
    this.#pipeId = pipeId
    this.#reader = reader
    this.#budget = budget
    this.#clock = clock
  }

  head(): Promise<Cursor> {
    return this.#reader.head(this.#pipeId)
  }

  /** Looks up the mark at the cursor, once, when the lane starts for the first time. */
  async located(row: LaneState): Promise<LaneState> {
    if (row.cursorMark !== null) return row
    const { seq, mark } = await this.#reader.cursorAt(this.#pipeId, row.cursorSeq)
    return { ...row, cursorSeq: Math.max(row.cursorSeq, seq), cursorMark: mark }
  }

  /** Counts the messages after the cursor. */
  async backlog(row: LaneState): Promise<Backlog> {
    return await this.#reader.backlog(this.#pipeId, cursorOf(await this.located(row)))
  }

  /** Counts the messages after the cursor, up to this message. */
  async backlogThrough(row: LaneState, seq: number): Promise<Backlog> {
    return await this.#reader.backlog(this.#pipeId, cursorOf(await this.located(row)), seq)
  }

  async next(saved: LaneState, spec: LaneSpec, memory: WaitForMemory, ahead: ReadAhead): Promise<NextBatch> {
    const located = await this.located(saved)
    if (throughOf(located) !== null) ahead.discard()
    const inMemory = ahead.take(located)
    const taken = inMemory && (await this.#taken(located, inMemory))
    if (taken !== null) return taken
    const row = (await this.#isNextDue(located)) ? withNextAsRange(located) : located
    const through = throughOf(row)
    const due =
      through === null ? await this.#due(row, spec) : { waitMs: 0, bytes: await this.#bytesTo(row, through) }
    if (due.waitMs > 0) return { kind: 'wait', row, waitMs: due.waitMs }

    return await this.#read(row, spec, memory, { cutBytes: due.bytes, reservedBytes: due.bytes })
  }

  /** True when nothing is left of the current range, nor between it and the next one. */
  async #isNextDue(row: LaneState): Promise<boolean> {
    if (throughOf(row) !== null || row.nextFirstSeq === null) return false
    return (await this.backlogThrough(row, row.nextFirstSeq - 1)).messages === 0
  }

  /** Takes the next range from memory. Null when there is no memory for it immediately. */
  async #taken(row: LaneState, messages: MarkedMessage[]): Promise<NextBatch | null> {
    assert(messages[0]!.seq === row.nextFirstSeq && messages.at(-1)!.seq === row.nextLastSeq)
    const reservation = this.#budget.tryReserve(bytesOf(messages))
    if (reservation === null) return null
    let isKept = false
    try {
      // Messages that retention dropped after they were read count as dropped.
      const lost = await this.lost(row)
      if (lost !== null) return lost
      isKept = true
      return { kind: 'batch', row: withNextAsRange(row), reserved: { messages, reservation } }
    } finally {
      if (!isKept) reservation.release()
    }
  }

  /**
   * `cutBytes` limits a batch that has no range yet. `reservedBytes` is the memory to wait for; it is larger when the
   * first message is larger than the limit.
   */
  async #read(
    row: LaneState,
    spec: LaneSpec,
    memory: WaitForMemory,
    { cutBytes, reservedBytes }: { cutBytes: number; reservedBytes: number },
  ): Promise<NextBatch> {
    const through = throughOf(row)
    const reservation = await this.#reserve(reservedBytes, memory)
    if (reservation === null) return { kind: 'interrupted', row }
    let isKept = false
    let largerBytes = 0
    try {
      const { maxRecords, maxBytes } = limitsOf(row, spec)
      const limits = { maxRecords, maxBytes: Math.min(maxBytes, cutBytes) }
      const afterMark = row.cursorMark
      const run = await this.#reader.read(
        this.#pipeId,
        row.cursorSeq,
        through === null
          ? { ...limits, afterMark, throughSeq: beforeNext(row) }
          : { ...everything, afterMark, throughSeq: through },
      )
      const lost = await this.lost(row)
      if (lost !== null) return lost
      const gapSeq = firstGap(run)
      const sound = run.messages.filter((message) => message.seq < gapSeq)
      if (sound.length === 0) {
        const gap = pastGap(row, run)
        if (gap !== null) return gap
        // Nothing of the fixed range is left. The following read detects the loss.
        if (through !== null) return { kind: 'interrupted', row: withoutRange(row) }
        if (row.nextFirstSeq !== null) return { kind: 'interrupted', row: withNextAsRange(row) }
        return { kind: 'wait', row, waitMs: Number.POSITIVE_INFINITY }
      }
      const messages = through === null ? cutBatch(sound, limits) : sound
      isKept = reservation.tryResize(bytesOf(messages))
      if (isKept)
        return { kind: 'batch', row: fixedRange(row, messages), reserved: { messages, reservation } }
      largerBytes = bytesOf(messages)
    } finally {
      if (!isKept) reservation.release()
    }
    // A message above the share is read again when there is room for it. Otherwise many lanes would each hold such a
    // message in memory.
    return await this.#read(row, spec, memory, { cutBytes, reservedBytes: largerBytes })
  }

  /** When the oldest undelivered message was received; null when nothing is pending. */
  async oldestReceivedMs(row: LaneState): Promise<number | null> {
    if (this.#oldest?.afterSeq !== row.cursorSeq) {
      const limits = { maxRecords: 1, maxBytes: 1, afterMark: row.cursorMark }
      const run = await this.#reader.read(this.#pipeId, row.cursorSeq, limits)
      const first = run.messages[0]
      if (first === undefined) return null
      this.#oldest = {
        afterSeq: row.cursorSeq,
        receivedMs: first.receivedMs,
        sinceMs: this.#clock.monotonicMs(),
      }
    }
    return this.#oldest.receivedMs
  }

  /** Detects that retention overtook the cursor: messages between it and the earliest kept message are lost. */
  async lost(saved: LaneState): Promise<DroppedMessages | null> {
    const row = await this.located(saved)
    const earliest = await this.#reader.earliest(this.#pipeId)
    if (earliest.seq <= row.cursorSeq) return null
    const { messages: dropped } = await this.backlogThrough(row, earliest.seq)
    if (dropped === 0) return null
    const range = { firstSeq: row.cursorSeq + 1, lastSeq: earliest.seq }
    const reason = 'retention'
    return { kind: 'dropped', row: afterDropped(row, earliest, dropped), dropped, reason, ...range }
  }

  async #due(row: LaneState, spec: LaneSpec): Promise<{ waitMs: number; bytes: number }> {
    const isBeforeNext = row.nextFirstSeq !== null
    const pending = isBeforeNext ? await this.backlogThrough(row, beforeNext(row)!) : await this.backlog(row)
    const backlog = { ...pending, oldestAgeMs: 0 }
    // New messages cannot belong to the part before the next range.
    const limits = { ...limitsOf(row, spec), ...(isBeforeNext ? { maxSeconds: 0 } : {}) }
    if (limits.maxSeconds > 0 && backlog.messages > 0) backlog.oldestAgeMs = await this.#oldestAgeMs(row)
    const bytes = Math.min(limits.maxBytes, this.#budget.shareBytes(), Math.max(backlog.bytes, 1))
    return { waitMs: closesInMs(backlog, limits), bytes }
  }

  /** The batch is at least as old as it has been known, so a wall clock that is set back does not keep it open. */
  async #oldestAgeMs(row: LaneState): Promise<number> {
    const receivedMs = await this.oldestReceivedMs(row)
    if (receivedMs === null) return 0
    return Math.max(this.#clock.now() - receivedMs, this.#clock.monotonicMs() - this.#oldest!.sinceMs)
  }

  async #bytesTo(row: LaneState, seq: number): Promise<number> {
    return Math.max((await this.backlogThrough(row, seq)).bytes, 1)
  }

  async #reserve(bytes: number, memory: WaitForMemory): Promise<MemoryReservation | null> {
    const reservation = this.#budget.tryReserve(bytes)
    if (reservation !== null) return reservation
    await memory.before()
    return await this.#budget.reserve(bytes, memory.signal)
  }
}

/** The first seq at which messages are damaged or missing; Infinity when there are none. */
export function firstGap({ damaged, lost }: MessageRun): number {
  return Math.min(damaged[0]?.seq ?? Number.POSITIVE_INFINITY, lost[0]?.firstSeq ?? Number.POSITIVE_INFINITY)
}

/**
 * Moves past damaged or lost messages at the start of the run and counts them. Null when the run starts with a message
 * or is empty.
 */
export function pastGap(row: LaneState, run: MessageRun): DroppedMessages | null {
  const gapSeq = firstGap(run)
  const first = run.messages[0]
  if (gapSeq === Number.POSITIVE_INFINITY || (first !== undefined && first.seq < gapSeq)) return null
  const lost = run.lost[0]
  if (lost?.firstSeq === gapSeq) {
    const { messages: dropped, firstSeq, to } = lost
    const range = { firstSeq, lastSeq: to.seq }
    return { kind: 'dropped', row: afterDropped(row, to, dropped), dropped, reason: 'damaged', ...range }
  }
  const { seq, mark } = run.damaged[0]!
  const moved = afterDropped(row, { seq, mark }, 1)
  return { kind: 'dropped', row: moved, dropped: 1, reason: 'damaged', firstSeq: seq, lastSeq: seq }
}

/**
 * The limits for reading batches ahead. Null when none must be read: a message is failing or being searched for, or
 * batches of this destination take turns.
 */
export function aheadLimits(row: LaneState, spec: LaneSpec): FlushLimits | null {
  // A lane with its own rate pauses between batches, and a pause must hold no memory.
  const isSmooth = row.attempts === 0 && row.bisectLastSeq === null && spec.rate === null
  const readsAhead = descriptorOf(spec.type).readsAhead?.(spec.config) ?? true
  return isSmooth && readsAhead ? limitsOf(row, spec) : null
}

/** The flush plan, limited to the size that last succeeded. A failed batch does not wait for more messages. */
function limitsOf({ sizeLimitRecords, attempts }: LaneState, { flush }: LaneSpec): FlushLimits {
  return {
    maxRecords: Math.min(flush.maxRecords, sizeLimitRecords ?? Number.POSITIVE_INFINITY),
    maxBytes: flush.maxBytes,
    maxSeconds: attempts > 0 ? 0 : flush.maxSeconds,
  }
}

/**
 * Keeps a fixed range unless one of its messages is missing or damaged by now: then it is another batch and needs
 * another identity.
 */
function fixedRange(row: LaneState, messages: readonly StoredMessage[]): LaneState {
  if (row.batchLastSeq === null) return withRange(row, messages)
  const through = throughOf(row)
  const isIntact =
    messages[0]!.seq === row.batchFirstSeq &&
    messages.at(-1)!.seq === through &&
    messages.some((message) => message.seq === row.batchLastSeq)
  if (isIntact) return row
  return withRange(withoutRange(row), messages)
}

/** The last message to read for the next attempt; null when the limits decide. */
function throughOf({ bisectLastSeq, batchLastSeq }: LaneState): number | null {
  return bisectLastSeq ?? batchLastSeq
}

/** The limit of a range that is cut now: a fixed next range can have been sent already. */
function beforeNext({ nextFirstSeq }: LaneState): number | undefined {
  return nextFirstSeq === null ? undefined : nextFirstSeq - 1
}

/** The cursor of a row for which `located` was called. */
function cursorOf({ cursorSeq, cursorMark }: LaneState): Cursor {
  assert(cursorMark !== null)
  return { seq: cursorSeq, mark: cursorMark }
}
