/**
 * Reads the next batches while the destination works on the current one.
 *
 *   nothing ──attempt begins──▶ reading ──▶ held ──the attempt stored everything──▶ taken: the next batch
 *      ▲                           │          │
 *      └───────────────────────────┴──────────┴── failed, a command, a pause, memory revoked
 *
 * It changes when messages are read, never the content of a batch. Only batches that are closed by their size are read
 * ahead, so no later message could belong to them. The held batches are the next ranges of the lane's row, which are
 * saved while the destination works. So they can be sent as soon as the previous batch is stored, without a save in
 * between. `durable-state.ts` lists the states after a crash.
 *
 * Several batches are held so that they share a save. It uses only memory that no batch needs (MemoryBudget). A failing
 * lane holds none.
 *
 * `PatientReader`, at the end, is how all lanes read: it waits for a buffer that is unavailable, and reads a large batch
 * in slices, because all lanes share a thread.
 */
import {
  type Backlog,
  type BufferReader,
  BufferReadUnavailableError,
  type Cursor,
  type Heads,
  type MarkedMessage,
  type MessageRun,
  type ReadLimits,
} from '../log/buffer.ts'
import { type FlushLimits, type NextRanges, nextRanges } from '../metadata/lane-state.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Logger } from '../platform/log.ts'
import { Waits } from '../platform/waits.ts'
import { bytesOf, recordsOf } from './batch.ts'
import { type Clock, EventLoopTurns } from './clock.ts'
import type { SpareMemory, WorkspaceMemory } from './memory-budget.ts'

type SizeLimits = Pick<FlushLimits, 'maxRecords' | 'maxBytes'>

/**
 * Limits what a crash repeats, and the memory of a lane: one more batch is read while the held ones have at most so many
 * bytes. 8 batches make a save a minor part of the work.
 */
const maxHeldBatches = 8
const maxHeldBytes = 4 * 1024 * 1024
/**
 * One batch is sent while these are read, so the number of held batches grows even when the destination is faster than
 * the reads.
 */
const batchesPerTurn = 2

interface HeldBatch {
  messages: MarkedMessage[]
  bytes: number
  memory: SpareMemory
}

export interface ReadAheadCalls {
  /** Called synchronously: the held batches are always the row's next ranges. */
  onHeld(messages: readonly MarkedMessage[]): void
  /** Called after each turn of the event loop in which batches were read. */
  onTurn(): void
}

export class ReadAhead {
  readonly #pipeId: string
  readonly #reader: BufferReader
  readonly #budget: WorkspaceMemory
  #held: HeldBatch[] = []
  /** Identifies the current `read`; null when there is none. */
  #reading: object | null = null
  #failure: { error: unknown } | null = null

  constructor(pipeId: string, reader: BufferReader, budget: WorkspaceMemory) {
    this.#pipeId = pipeId
    this.#reader = reader
    this.#budget = budget
  }

  /** False: the row has ranges that are not held. They are read in their turn. */
  holdsAllOf(row: NextRanges): boolean {
    return nextRanges(row).length === this.#held.length
  }

  /**
   * Reads the messages after the held ones, or after this one, as long as they fill batches and `take` is not called.
   * Resolves when it is done; never rejects: see `throwFailure`.
   */
  async read(after: MarkedMessage, limits: SizeLimits, calls: ReadAheadCalls): Promise<void> {
    const reading = {}
    this.#reading = reading
    try {
      for (let isMore = true; isMore; ) {
        // Waits until the request of the attempt has been sent, and lets the event loop run between reads.
        await new Promise<void>((resolve) => setImmediate(resolve))
        for (let batch = 0; isMore && batch < batchesPerTurn; batch += 1)
          isMore = this.#reading === reading && (await this.#readOne(reading, after, limits, calls))
        if (this.#reading === reading) calls.onTurn()
      }
    } catch (error) {
      this.#failure = { error }
    }
    if (this.#reading === reading) this.#reading = null
  }

  /** Returns the batch that was read ahead if it is the row's next range. The caller then owns its memory. */
  take({ nextFirstSeq, nextLastSeq }: NextRanges): MarkedMessage[] | null {
    this.#reading = null
    const batch = this.#held.shift()
    if (batch === undefined) return null
    batch.memory.release()
    const { messages } = batch
    if (messages[0]!.seq === nextFirstSeq && messages.at(-1)!.seq === nextLastSeq) return messages
    this.discard()
    return null
  }

  /** Throws the error of a failed read, as the lane's own error. */
  throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error
  }

  /** Idempotent. */
  discard(): void {
    for (const { memory } of this.#held) memory.release()
    this.#held = []
    this.#reading = null
  }

  /** Returns true when another batch can be read. */
  async #readOne(
    reading: object,
    first: MarkedMessage,
    limits: SizeLimits,
    { onHeld }: ReadAheadCalls,
  ): Promise<boolean> {
    if (this.#isFull()) return false
    // The batch is cut here as it would be cut in its turn: its range is now fixed.
    const { seq, mark } = this.#held.at(-1)?.messages.at(-1) ?? first
    const { maxRecords } = limits
    const maxBytes = Math.min(limits.maxBytes, this.#budget.shareBytes())
    const backlog = await this.#reader.backlog(this.#pipeId, { seq, mark })
    if (this.#reading !== reading || (backlog.records < maxRecords && backlog.bytes < maxBytes)) return false
    const expected = this.#lent(Math.min(maxBytes, backlog.bytes))
    if (expected === null) return false
    const sizes = { maxRecords, maxBytes }
    const reads = this.#reader.read(this.#pipeId, seq, { ...sizes, afterMark: mark })
    const run = await reads.finally(() => expected.release())
    const { messages } = run
    // The lane itself handles damaged and lost messages.
    if (this.#reading !== reading || run.damaged.length > 0 || run.lost.length > 0) return false
    const bytes = bytesOf(messages)
    const isFull = run.more || recordsOf(messages) >= maxRecords || bytes >= maxBytes
    const memory = isFull && messages.length > 0 ? this.#lent(bytes) : null
    if (memory === null) return false
    this.#held.push({ messages, bytes, memory })
    onHeld(messages)
    return true
  }

  #isFull(): boolean {
    const bytes = this.#held.reduce((sum, batch) => sum + batch.bytes, 0)
    const nextBytes = this.#held.at(-1)?.bytes ?? 0
    return this.#held.length >= maxHeldBatches || bytes + nextBytes > maxHeldBytes
  }

  #lent(bytes: number): SpareMemory | null {
    return this.#budget.trySpare(bytes, () => this.discard())
  }
}

/**
 * The buffer reader for lanes. While the buffer does not respond (a cluster's stream without a leader, a lost
 * connection), lanes wait instead of ending. Each read is repeated until it succeeds, so a lane continues where it was,
 * in order. Reads for users use the reader itself and are rejected immediately.
 *
 *   read ──unavailable──▶ waits 0.1 s, then twice as long, at most 2 s ──▶ read again
 *                                  └──the lane ends──▶ rejected
 */
const firstWaitMs = 100
const longestWaitMs = 2_000
/**
 * The event loop runs after so many bytes of a read. A batch for Parquet of 22 MiB took 50 to 170 ms in one piece, in
 * which no other lane of the thread did anything.
 */
const sliceBytes = 1024 * 1024

export class PatientReader implements BufferReader {
  readonly #reader: BufferReader
  readonly #shared: SharedReads
  /** The waits of reads that are repeated. */
  readonly #waits: Waits
  #isEnding = false

  constructor(reader: BufferReader, clock: Clock, shared: SharedReads) {
    this.#reader = reader
    this.#shared = shared
    this.#waits = new Waits(clock)
  }

  /**
   * The lane ends: from now on reads without a response reject with BufferReadUnavailableError, including those that
   * wait now.
   */
  stopWaiting(): void {
    this.#isEnding = true
    this.#waits.end()
  }

  async read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    const run = await this.#readSlice(pipeId, afterSeq, limits)
    let leftRecords = limits.maxRecords - recordsOf(run.messages)
    let leftBytes = limits.maxBytes - bytesOf(run.messages)
    for (let last = run.messages.at(-1); isSliceEnd(run) && last !== undefined; last = run.messages.at(-1)) {
      if (leftRecords <= 0 || leftBytes <= 0) break
      await this.#shared.turns.take()
      const left = { ...limits, maxRecords: leftRecords, maxBytes: leftBytes, afterMark: last.mark }
      const next = await this.#readSlice(pipeId, last.seq, left)
      const [records, bytes] = [recordsOf(next.messages), bytesOf(next.messages)]
      // A read returns its first message even if that exceeds the limits.
      if (records > leftRecords || bytes > leftBytes) break
      leftRecords -= records
      leftBytes -= bytes
      for (const message of next.messages) run.messages.push(message)
      run.more = next.more
      run.damaged = next.damaged
      run.lost = next.lost
    }
    return run
  }

  head(pipeId: string): Promise<Cursor> {
    return this.#retryUntilAvailable(() => this.#reader.head(pipeId))
  }

  heads(afterSeq: number): Promise<Heads | null> {
    return this.#retryUntilAvailable(() => this.#reader.heads(afterSeq))
  }

  earliest(pipeId: string): Promise<Cursor> {
    return this.#retryUntilAvailable(() => this.#reader.earliest(pipeId))
  }

  cursorAt(pipeId: string, seq: number): Promise<Cursor> {
    return this.#retryUntilAvailable(() => this.#reader.cursorAt(pipeId, seq))
  }

  cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    return this.#retryUntilAvailable(() => this.#reader.cursorAtTime(pipeId, timeMs))
  }

  backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog> {
    return this.#retryUntilAvailable(() => this.#reader.backlog(pipeId, after, throughSeq))
  }

  relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }> {
    return this.#retryUntilAvailable(() => this.#reader.relocate(pipeId, cursor))
  }

  pipeIds(): Promise<string[]> {
    return this.#retryUntilAvailable(() => this.#reader.pipeIds())
  }

  /** The underlying reader is closed by the code that opened it. */
  async close(): Promise<void> {
    this.stopWaiting()
  }

  #readSlice(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    const slice = { ...limits, maxBytes: Math.min(limits.maxBytes, sliceBytes) }
    return this.#retryUntilAvailable(() => this.#reader.read(pipeId, afterSeq, slice))
  }

  async #retryUntilAvailable<T>(ask: () => Promise<T>): Promise<T> {
    for (let failures = 1; ; failures += 1) {
      try {
        const answer = await ask()
        this.#shared.answered()
        return answer
      } catch (error) {
        if (!(error instanceof BufferReadUnavailableError) || this.#isEnding) throw error
        this.#shared.failed(error)
        await this.#waits.wait(backoffMs(failures, firstWaitMs, longestWaitMs))
      }
    }
  }
}

/** False when the run is complete, or messages are missing in it. */
function isSliceEnd({ more, damaged, lost }: MessageRun): boolean {
  return more && damaged.length === 0 && lost.length === 0
}

/**
 * Shared by the readers of all lanes: the turns of their slices, and a log line when the buffer stops responding, and one
 * when it responds again.
 */
export class SharedReads {
  readonly turns = new EventLoopTurns()
  readonly #clock: Clock
  readonly #log: Logger
  /** Monotonic; null while the buffer responds. */
  #since: number | null = null

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  failed(err: BufferReadUnavailableError): void {
    if (this.#since !== null) return
    this.#since = this.#clock.monotonicMs()
    this.#log.warn({ err }, 'lanes.read_delayed')
  }

  answered(): void {
    if (this.#since === null) return
    const waitedMs = Math.round(this.#clock.monotonicMs() - this.#since)
    this.#since = null
    this.#log.info({ waited_ms: waitedMs }, 'lanes.read_resumed')
  }
}
