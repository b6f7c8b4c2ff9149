/**
 * The batch after the one under way, read while the destination works on that one.
 *
 *   nothing ──attempt begins──▶ reading ──▶ held ──the attempt stored everything──▶ taken: the next batch
 *      ▲                           │          │
 *      └───────────────────────────┴──────────┴── failed, a command, a pause, memory wanted elsewhere
 *
 * It changes when messages are read, never what a batch is made of. Only a batch that its size closes is read ahead, so
 * nothing that arrives later could belong to it. What is held is the next range of the lane's row, and is saved with it
 * while the destination works: then it may be sent as soon as the batch before it is stored, and no save stands between
 * two batches. What a process leaves that ends meanwhile: `durable-state.ts`.
 *
 * Its memory is what no batch needs (MemoryBudget); a lane that fails holds none.
 */
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import type { FlushLimits, LaneState } from '../metadata/lane-state.ts'
import { bytesOf, recordsOf } from './batch.ts'
import type { SpareMemory, WorkspaceMemory } from './memory-budget.ts'

type SizeLimits = Pick<FlushLimits, 'maxRecords' | 'maxBytes'>
type NextRange = Pick<LaneState, 'nextFirstSeq' | 'nextLastSeq'>

interface Reading {
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

  /**
   * Reads what follows this message, if it fills a batch: `onHeld` gets it. Resolves when there is nothing more to expect;
   * never rejects: see `throwFailure`.
   */
  async read(
    after: MarkedMessage,
    limits: SizeLimits,
    onHeld: (messages: readonly MarkedMessage[]) => void,
  ): Promise<void> {
    this.discard()
    const reading: Reading = { memory: null, messages: [] }
    this.#reading = reading
    try {
      // The request goes out first.
      await new Promise<void>((resolve) => setImmediate(resolve))
      await this.#fill(reading, after, limits, onHeld)
    } catch (error) {
      this.#failure = { error }
    }
    if (reading.messages.length === 0 && this.#reading === reading) this.discard()
  }

  /**
   * Takes the messages that were read ahead, if they are the row's next range: the caller owns their memory from now
   * on.
   */
  take({ nextFirstSeq, nextLastSeq }: NextRange): MarkedMessage[] | null {
    const messages = this.#reading?.messages ?? []
    this.discard()
    const isNext =
      messages.length > 0 && messages[0]!.seq === nextFirstSeq && messages.at(-1)!.seq === nextLastSeq
    return isNext ? messages : null
  }

  /** A failed read is the lane's own error. */
  throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error
  }

  /** Idempotent. */
  discard(): void {
    this.#reading?.memory?.release()
    this.#reading = null
  }

  async #fill(
    reading: Reading,
    { seq, mark }: MarkedMessage,
    { maxRecords, maxBytes: mostBytes }: SizeLimits,
    onHeld: (messages: readonly MarkedMessage[]) => void,
  ): Promise<void> {
    // Where it would be cut when its turn comes: its range is fixed from here on.
    const maxBytes = Math.min(mostBytes, this.#budget.shareBytes())
    const backlog = await this.#reader.backlog(this.#pipeId, { seq, mark })
    if (this.#reading !== reading || (backlog.records < maxRecords && backlog.bytes < maxBytes)) return
    if (!this.#reserve(reading, Math.min(maxBytes, backlog.bytes))) return
    const run = await this.#reader.read(this.#pipeId, seq, { maxRecords, maxBytes, afterMark: mark })
    const { messages } = run
    // The lane itself handles damaged and lost messages.
    if (this.#reading !== reading || run.damaged.length > 0 || run.lost.length > 0) return
    const bytes = bytesOf(messages)
    const isFull = run.more || recordsOf(messages) >= maxRecords || bytes >= maxBytes
    reading.memory?.release()
    if (!isFull || !this.#reserve(reading, bytes)) return
    reading.messages = messages
    // At once: what is held is always the row's next range.
    onHeld(messages)
  }

  #reserve(reading: Reading, bytes: number): boolean {
    reading.memory = this.#budget.trySpare(bytes, () => {
      if (this.#reading === reading) this.#reading = null
    })
    return reading.memory !== null
  }
}
