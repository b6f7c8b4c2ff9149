/**
 * The batch after the one under way, read while the destination works on that one.
 *
 *   nothing ──attempt begins──▶ reading ──▶ held ──the attempt stored everything──▶ taken: the next batch
 *      ▲                           │          │
 *      └───────────────────────────┴──────────┴── failed, a command, a pause, other limits, memory wanted elsewhere
 *
 * It changes when messages are read, never what a batch is made of. Only a batch that its size closes is read ahead, so
 * nothing that arrives later could belong to it, and it is taken only where it would be cut now: at the row's cursor, no
 * range fixed, under the same limits. Nothing of it is in the row until it is taken, then its range is saved before it is
 * sent, like any other: a process that ends meanwhile leaves the cursor and the range of the batch under way, and the
 * next range is cut from the log again.
 *
 * Its memory is what no batch needs (MemoryBudget); a lane that fails holds none.
 */
import type { BufferReader, MarkedMessage } from '../buffer/buffer.ts'
import { bytesOf, recordsOf } from './batch.ts'
import type { FlushLimits } from './lane-state.ts'
import type { SpareMemory, WorkspaceMemory } from './memory-budget.ts'

export type SizeLimits = Pick<FlushLimits, 'maxRecords' | 'maxBytes'>

interface Reading {
  afterSeq: number
  limits: SizeLimits
  memory: SpareMemory | null
  /** Empty while it is being read. */
  messages: MarkedMessage[]
}

export class ReadAhead {
  readonly #pipeId: string
  readonly #reader: BufferReader
  readonly #budget: WorkspaceMemory
  #reading: Reading | null = null
  #failure: { error: unknown } | null = null

  constructor(pipeId: string, reader: BufferReader, budget: WorkspaceMemory) {
    this.#pipeId = pipeId
    this.#reader = reader
    this.#budget = budget
  }

  /** Reads what follows this message, if it fills a batch. Never rejects: see `throwFailure`. */
  async read(after: MarkedMessage, limits: SizeLimits): Promise<void> {
    this.discard()
    const reading: Reading = { afterSeq: after.seq, limits, memory: null, messages: [] }
    this.#reading = reading
    try {
      // The request goes out first.
      await new Promise<void>((resolve) => setImmediate(resolve))
      await this.#fill(reading, after)
    } catch (error) {
      this.#failure = { error }
    }
    if (reading.messages.length === 0 && this.#reading === reading) this.discard()
  }

  /** What was read ahead, if it is what comes next: its memory is the caller's concern from now on. */
  take(cursorSeq: number, limits: SizeLimits): MarkedMessage[] | null {
    const reading = this.#reading
    this.discard()
    if (reading === null || reading.messages.length === 0) return null
    const isNext = reading.afterSeq === cursorSeq && isSame(reading.limits, limits)
    return isNext ? reading.messages : null
  }

  /** What went wrong in reading is the lane's own error. */
  throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error
  }

  /** Idempotent. */
  discard(): void {
    this.#reading?.memory?.release()
    this.#reading = null
  }

  async #fill(reading: Reading, { seq, mark }: MarkedMessage): Promise<void> {
    const { maxRecords, maxBytes } = reading.limits
    const backlog = await this.#reader.backlog(this.#pipeId, { seq, mark })
    if (this.#reading !== reading || (backlog.records < maxRecords && backlog.bytes < maxBytes)) return
    if (!this.#reserve(reading, Math.min(maxBytes, backlog.bytes))) return
    const run = await this.#reader.read(this.#pipeId, seq, { maxRecords, maxBytes, afterMark: mark })
    const { messages } = run
    // What is damaged or lost is for the lane itself to meet.
    if (this.#reading !== reading || run.damaged.length > 0 || run.lost.length > 0) return
    const bytes = bytesOf(messages)
    const isFull = run.more || recordsOf(messages) >= maxRecords || bytes >= maxBytes
    reading.memory?.release()
    if (isFull && this.#reserve(reading, bytes)) reading.messages = messages
  }

  #reserve(reading: Reading, bytes: number): boolean {
    reading.memory = this.#budget.trySpare(bytes, () => {
      if (this.#reading === reading) this.#reading = null
    })
    return reading.memory !== null
  }
}

function isSame(one: SizeLimits, other: SizeLimits): boolean {
  return one.maxRecords === other.maxRecords && one.maxBytes === other.maxBytes
}
