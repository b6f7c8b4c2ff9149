/**
 * Reads the next batch while the destination works on the current one.
 *
 *   nothing ──attempt begins──▶ reading ──▶ held ──the attempt stored everything──▶ taken: the next batch
 *      ▲                           │          │
 *      └───────────────────────────┴──────────┴── failed, a command, a pause, memory revoked
 *
 * It changes when messages are read, never the content of a batch. Only a batch that is closed by its size is read
 * ahead, so no later message could belong to it. The held messages are the next range of the lane's row, which is saved
 * while the destination works. So they can be sent as soon as the previous batch is stored, without a save in between.
 * `durable-state.ts` lists the states after a crash.
 *
 * It uses only memory that no batch needs (MemoryBudget). A failing lane holds none.
 */
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import type { FlushLimits, LaneState } from '../metadata/lane-state.ts'
import { bytesOf, recordsOf } from './batch.ts'
import type { SpareMemory, WorkspaceMemory } from './memory-budget.ts'

type SizeLimits = Pick<FlushLimits, 'maxRecords' | 'maxBytes'>
type NextRange = Pick<LaneState, 'nextFirstSeq' | 'nextLastSeq'>

interface Reading {
  memory: SpareMemory | null
  /** Empty while the messages are being read. */
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
   * Reads the messages after this one if they fill a batch, and passes them to `onHeld`. Resolves when it is done; never
   * rejects: see `throwFailure`.
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
      // Waits until the request of the attempt has been sent.
      await new Promise<void>((resolve) => setImmediate(resolve))
      await this.#fill(reading, after, limits, onHeld)
    } catch (error) {
      this.#failure = { error }
    }
    if (reading.messages.length === 0 && this.#reading === reading) this.discard()
  }

  /** Returns the messages that were read ahead if they are the row's next range. The caller then owns their memory. */
  take({ nextFirstSeq, nextLastSeq }: NextRange): MarkedMessage[] | null {
    const messages = this.#reading?.messages ?? []
    this.discard()
    const isNext =
      messages.length > 0 && messages[0]!.seq === nextFirstSeq && messages.at(-1)!.seq === nextLastSeq
    return isNext ? messages : null
  }

  /** Throws the error of a failed read, as the lane's own error. */
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
    limits: SizeLimits,
    onHeld: (messages: readonly MarkedMessage[]) => void,
  ): Promise<void> {
    // The batch is cut here as it would be cut in its turn: its range is now fixed.
    const { maxRecords } = limits
    const maxBytes = Math.min(limits.maxBytes, this.#budget.shareBytes())
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
    // Called synchronously: the held messages are always the row's next range.
    onHeld(messages)
  }

  #reserve(reading: Reading, bytes: number): boolean {
    reading.memory = this.#budget.trySpare(bytes, () => {
      if (this.#reading === reading) this.#reading = null
    })
    return reading.memory !== null
  }
}
