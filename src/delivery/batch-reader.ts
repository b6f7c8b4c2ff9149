/**
 * From a lane's row to the messages of its next attempt: what is due, what memory allows, and what was lost on the way.
 *
 * The order matters. The run is read first and the floor looked at after it: retention may drop segments at any
 * moment, and what it dropped before the read shows in the floor; what it drops after the look is in memory already.
 * So a message is either delivered or counted as dropped, never passed over.
 */
import type { BufferReader, PipePosition, StoredMessage } from '../buffer/buffer.ts'
import type { Clock } from './clock.ts'
import type { LaneRow, LaneSpec } from './delivery.ts'
import { closesInMs, cutBatch } from './flush-plan.ts'
import { afterDropped, bytesOf, totalsOf, withRange } from './lane-row.ts'
import type { MemoryBudget, MemoryHold } from './memory-budget.ts'

/** The messages of the fixed range, and of the suspects after it while a failing message is searched for. */
export interface HeldBatch {
  messages: StoredMessage[]
  hold: MemoryHold
}

export type NextBatch =
  | { kind: 'batch'; row: LaneRow; held: HeldBatch }
  /** Nothing is due for so long, or until more arrives. */
  | { kind: 'wait'; row: LaneRow; waitMs: number }
  /** Messages were lost: the row says so, ask again. */
  | DroppedMessages
  | { kind: 'interrupted'; row: LaneRow }

export interface DroppedMessages {
  kind: 'dropped'
  row: LaneRow
  dropped: number
  reason: 'retention' | 'damaged'
}

export interface WaitForMemory {
  /** Called before a wait for memory: what is done must not stay unsaved as long as other lanes take. */
  before(): Promise<void>
  signal: AbortSignal
}

const everything = { maxRecords: Number.MAX_SAFE_INTEGER, maxBytes: Number.MAX_SAFE_INTEGER }

export class BatchReader {
  readonly #pipeId: string
  readonly #reader: BufferReader
  readonly #budget: MemoryBudget
  readonly #clock: Clock
  /** The oldest undelivered message: when it was received, and since when (monotonic) it has been known. */
  #oldest: { afterSeq: number; receivedMs: number; sinceMs: number } | null = null

  constructor(pipeId: string, reader: BufferReader, budget: MemoryBudget, clock: Clock) {
    this.#pipeId = pipeId
    this.#reader = reader
    this.#budget = budget
    this.#clock = clock
  }

  head(): Promise<PipePosition> {
    return this.#reader.head(this.#pipeId)
  }

  /** The totals at the cursor are looked up once, when the lane starts for the first time. */
  async located(row: LaneRow): Promise<LaneRow> {
    if (row.cursorTotals !== null) return row
    const position = await this.#reader.positionAt(this.#pipeId, row.cursorSeq)
    return {
      ...row,
      cursorSeq: Math.max(row.cursorSeq, position.seq),
      cursorTotals: totalsOf(position),
    }
  }

  async next(given: LaneRow, spec: LaneSpec, memory: WaitForMemory): Promise<NextBatch> {
    const row = await this.located(given)
    const through = row.suspectLastSeq ?? row.batchLastSeq
    const due =
      through === null ? await this.#due(row, spec) : { waitMs: 0, bytes: await this.#bytesTo(row, through) }
    if (due.waitMs > 0) return { kind: 'wait', row, waitMs: due.waitMs }

    return await this.#read(row, spec, memory, due.bytes, due.bytes)
  }

  /**
   * `cutBytes`: where a batch is cut that has no range yet. `heldBytes`: the memory to wait for, which is more than
   * that when the first message alone was found to be larger.
   */
  async #read(
    row: LaneRow,
    spec: LaneSpec,
    memory: WaitForMemory,
    cutBytes: number,
    heldBytes: number,
  ): Promise<NextBatch> {
    const through = row.suspectLastSeq ?? row.batchLastSeq
    const hold = await this.#hold(heldBytes, memory)
    if (hold === null) return { kind: 'interrupted', row }
    let isHeld = false
    let largerBytes = 0
    try {
      const limits = { maxRecords: spec.flush.maxRecords, maxBytes: Math.min(spec.flush.maxBytes, cutBytes) }
      const run = await this.#reader.read(
        this.#pipeId,
        row.cursorSeq,
        through === null ? limits : { ...everything, throughSeq: through },
      )
      const lost = await this.lost(row)
      if (lost !== null) return lost
      const damaged = run.damaged[0]?.seq ?? Number.POSITIVE_INFINITY
      const sound = run.messages.filter((message) => message.seq < damaged)
      if (sound.length === 0) {
        if (run.damaged.length === 0) return { kind: 'wait', row, waitMs: Number.POSITIVE_INFINITY }
        return await this.pastDamaged(row, damaged)
      }
      const messages = through === null ? cutBatch(sound, limits) : sound
      isHeld = hold.tryResize(bytesOf(messages))
      if (isHeld) return { kind: 'batch', row: fixedRange(row, messages), held: { messages, hold } }
      largerBytes = bytesOf(messages)
    } finally {
      if (!isHeld) hold.release()
    }
    // A message larger than the share: it is let go again and waits for its turn, or many lanes would each hold one.
    return await this.#read(row, spec, memory, cutBytes, largerBytes)
  }

  /** When the oldest undelivered message was received; null when nothing is pending. */
  async oldestReceivedMs(row: LaneRow): Promise<number | null> {
    if (this.#oldest?.afterSeq !== row.cursorSeq) {
      const run = await this.#reader.read(this.#pipeId, row.cursorSeq, { maxRecords: 1, maxBytes: 1 })
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

  /** Retention overtook the cursor: the difference of the running totals says by how many messages. */
  async lost(given: LaneRow): Promise<DroppedMessages | null> {
    const row = await this.located(given)
    const floor = await this.#reader.floor(this.#pipeId)
    const dropped = floor.messages - row.cursorTotals!.messages
    if (floor.seq <= row.cursorSeq || dropped <= 0) return null
    return { kind: 'dropped', row: afterDropped(row, floor, dropped), dropped, reason: 'retention' }
  }

  /** A damaged message at the cursor is passed over, and counted. */
  async pastDamaged(row: LaneRow, seq: number): Promise<DroppedMessages> {
    const position = await this.#reader.positionAt(this.#pipeId, seq)
    const to = { ...position, seq }
    const dropped = Math.max(1, position.messages - row.cursorTotals!.messages)
    return { kind: 'dropped', row: afterDropped(row, to, dropped), dropped, reason: 'damaged' }
  }

  async #due(row: LaneRow, spec: LaneSpec): Promise<{ waitMs: number; bytes: number }> {
    const head = await this.head()
    const totals = row.cursorTotals!
    const backlog = {
      messages: head.messages - totals.messages,
      records: head.records - totals.records,
      bytes: head.bytes - totals.bytes,
      oldestAgeMs: 0,
    }
    if (spec.flush.maxSeconds > 0 && backlog.messages > 0) backlog.oldestAgeMs = await this.#oldestAgeMs(row)
    const bytes = Math.min(spec.flush.maxBytes, this.#budget.shareBytes(), Math.max(backlog.bytes, 1))
    return { waitMs: closesInMs(backlog, spec.flush), bytes }
  }

  /** A wall clock that was set back must not hold a batch open: it is as old as it has been known, at least. */
  async #oldestAgeMs(row: LaneRow): Promise<number> {
    const receivedMs = await this.oldestReceivedMs(row)
    if (receivedMs === null) return 0
    return Math.max(this.#clock.now() - receivedMs, this.#clock.monotonicMs() - this.#oldest!.sinceMs)
  }

  async #bytesTo(row: LaneRow, seq: number): Promise<number> {
    const position = await this.#reader.positionAt(this.#pipeId, seq)
    return Math.max(position.bytes - row.cursorTotals!.bytes, 1)
  }

  async #hold(bytes: number, memory: WaitForMemory): Promise<MemoryHold | null> {
    const hold = this.#budget.tryAcquire(bytes)
    if (hold !== null) return hold
    await memory.before()
    return await this.#budget.acquire(bytes, memory.signal)
  }
}

/**
 * A range that is fixed stays, unless it can no longer be read as it was (a message of it was found damaged since):
 * then it is another batch and must have another identity.
 */
function fixedRange(row: LaneRow, messages: readonly StoredMessage[]): LaneRow {
  if (row.batchLastSeq === null) return withRange(row, messages)
  const through = row.suspectLastSeq ?? row.batchLastSeq
  const isIntact =
    messages[0]!.seq === row.batchFirstSeq &&
    messages.at(-1)!.seq === through &&
    messages.some((message) => message.seq === row.batchLastSeq)
  if (isIntact) return row
  return withRange({ ...row, batchFirstSeq: null, batchLastSeq: null, suspectLastSeq: null }, messages)
}
