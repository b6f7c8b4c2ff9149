/**
 * The buffer's reader as lanes have it: a buffer that does not answer for now (a cluster's stream without a leader, a lost
 * connection) makes them wait, and ends none of them. Each read is asked again until it is answered, so a lane goes on where it
 * was, in order; what is asked for people goes to the reader itself, and is rejected at once.
 *
 *   asked ──unavailable──▶ waits 0.1 s, then twice as long, at most 2 s ──▶ asked again
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
  /** Ends the wait of each waiting read. */
  readonly #waits = new Set<() => void>()
  #isEnding = false

  constructor(reader: BufferReader, clock: Clock, outage: ReadOutage) {
    this.#reader = reader
    this.#clock = clock
    this.#outage = outage
  }

  /**
   * The reading lane ends: from here on reads without a response reject with BufferReadUnavailableError, including
   * those that wait now.
   */
  stopWaiting(): void {
    this.#isEnding = true
    for (const end of [...this.#waits]) end()
  }

  read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun> {
    return this.#patiently(() => this.#reader.read(pipeId, afterSeq, limits))
  }

  head(pipeId: string): Promise<Cursor> {
    return this.#patiently(() => this.#reader.head(pipeId))
  }

  heads(afterSeq: number): Promise<Heads | null> {
    return this.#patiently(() => this.#reader.heads(afterSeq))
  }

  earliest(pipeId: string): Promise<Cursor> {
    return this.#patiently(() => this.#reader.earliest(pipeId))
  }

  cursorAt(pipeId: string, seq: number): Promise<Cursor> {
    return this.#patiently(() => this.#reader.cursorAt(pipeId, seq))
  }

  cursorAtTime(pipeId: string, timeMs: number): Promise<number> {
    return this.#patiently(() => this.#reader.cursorAtTime(pipeId, timeMs))
  }

  backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog> {
    return this.#patiently(() => this.#reader.backlog(pipeId, after, throughSeq))
  }

  relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }> {
    return this.#patiently(() => this.#reader.relocate(pipeId, cursor))
  }

  pipeIds(): Promise<string[]> {
    return this.#patiently(() => this.#reader.pipeIds())
  }

  /** The reader itself is whoever's who opened it. */
  async close(): Promise<void> {
    this.stopWaiting()
  }

  async #patiently<T>(ask: () => Promise<T>): Promise<T> {
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

/** For all lanes: one line when the buffer does not respond, and one when it does again. */
export class ReadOutage {
  readonly #clock: Clock
  readonly #log: Logger
  /** On the monotonic clock; null: it answers. */
  #since: number | null = null

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  failed(err: BufferReadUnavailableError): void {
    if (this.#since !== null) return
    this.#since = this.#clock.monotonicMs()
    this.#log.warn({ err }, 'lanes.read_waits')
  }

  answered(): void {
    if (this.#since === null) return
    const waitedMs = Math.round(this.#clock.monotonicMs() - this.#since)
    this.#since = null
    this.#log.info({ waited_ms: waitedMs }, 'lanes.read_again')
  }
}
