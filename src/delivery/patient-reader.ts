/**
 * The buffer reader for lanes. While the buffer does not respond (a cluster's stream without a leader, a lost
 * connection), lanes wait instead of ending. Each read is repeated until it succeeds, so a lane continues where it was,
 * in order. Reads for users use the reader itself and are rejected immediately.
 *
 *   read ──unavailable──▶ waits 0.1 s, then twice as long, at most 2 s ──▶ read again
 *                                  └──the lane ends──▶ rejected
 */
import {
  type Backlog,
  type BufferReader,
  BufferReadUnavailableError,
  type Cursor,
  type Heads,
  type MessageRun,
  type ReadLimits,
} from '../log/buffer.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'

const firstWaitMs = 100
const longestWaitMs = 2_000

export class PatientReader implements BufferReader {
  readonly #reader: BufferReader
  readonly #clock: Clock
  readonly #outage: ReadOutage
  /** Functions that end the wait of each waiting read. */
  readonly #waits = new Set<() => void>()
  #isEnding = false

  constructor(reader: BufferReader, clock: Clock, outage: ReadOutage) {
    this.#reader = reader
    this.#clock = clock
    this.#outage = outage
  }

  /**
   * The lane ends: from now on reads without a response reject with BufferReadUnavailableError, including those that
   * wait now.
   */
  stopWaiting(): void {
    this.#isEnding = true
    for (const end of [...this.#waits]) end()
  }

  read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    return this.#retryUntilAvailable(() => this.#reader.read(pipeId, afterSeq, limits))
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

  async #retryUntilAvailable<T>(ask: () => Promise<T>): Promise<T> {
    for (let failures = 1; ; failures += 1) {
      try {
        const answer = await ask()
        this.#outage.answered()
        return answer
      } catch (error) {
        if (!(error instanceof BufferReadUnavailableError) || this.#isEnding) throw error
        this.#outage.failed(error)
        await this.#wait(backoffMs(failures, firstWaitMs, longestWaitMs))
      }
    }
  }

  async #wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = () => {
        this.#waits.delete(end)
        cancel()
        resolve()
      }
      const cancel = this.#clock.wake(ms, end)
      this.#waits.add(end)
    })
  }
}

/** Logs for all lanes: one line when the buffer stops responding, and one when it responds again. */
export class ReadOutage {
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
