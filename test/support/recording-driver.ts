/**
 * A destination of the tests' own, in-process: it keeps what it is given and answers as told. It stands for the world
 * outside, where the real drivers would be.
 */
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationDriver,
  noProgress,
  type RejectedRecord,
} from '../../src/destinations/driver.ts'
import { recordPlace } from '../../src/log/record-text.ts'

/**
 * `lost`: stored, but the reply is lost. `hang`: neither answers nor minds being aborted. `slow`: answers only when
 * released, and rejects when aborted. `partly`: stores record by record, as far as `takes` goes.
 */
export type Reaction = 'store' | 'lost' | 'hang' | 'slow' | 'partly' | Error

export interface RecordedAttempt {
  identity: string
  firstSeq: number
  lastSeq: number
  seqs: number[]
  records: number
  recordOffset: number
  bodies: string[]
}

export class RecordingDestination {
  readonly attempts: RecordedAttempt[] = []
  /** Sequence numbers in the order they were stored; a repeated batch is there twice. */
  readonly stored: number[] = []
  opened = 0
  closed = 0
  aborts = 0
  /** With `partly`: how many more records are taken until `full` is the error; 0 again after it. */
  takes = 0
  full: DeliveryError = transient('http_429', 1_000)
  /** With `partly`: once it takes no more, it responds only when released. */
  isSlowWhenFull = false
  /** With `partly`: every record that was stored, as `<seq>:<index>`. */
  readonly records: string[] = []
  /** It tells records apart: these are rejected, and parked where the lane does that. */
  parks: (batch: Batch) => RejectedRecord[] = () => []
  /** After what is rejected was parked. */
  afterPark: 'store' | 'hang' = 'store'
  react: (batch: Batch, attempt: number) => Reaction = () => 'store'
  readonly #slow = new Set<() => void>()

  /** Lets every `slow` attempt under way succeed. */
  release(): void {
    for (const go of this.#slow) go()
  }

  get waiting(): number {
    return this.#slow.size
  }

  open(): DestinationDriver {
    this.opened += 1
    return {
      deliver: (batch, signal, progress = noProgress) => this.#deliver(batch, signal, progress),
      close: async () => {
        this.closed += 1
      },
    }
  }

  async #deliver(batch: Batch, signal: AbortSignal, progress: AttemptProgress): Promise<void> {
    const { identity, firstSeq, lastSeq, messages, recordCount, recordOffset } = batch
    const bodies = messages.map((message) => message.body.toString())
    const seqs = messages.map((message) => message.seq)
    this.attempts.push({ identity, firstSeq, lastSeq, seqs, records: recordCount, recordOffset, bodies })
    signal.addEventListener('abort', () => {
      this.aborts += 1
    })
    const reaction = this.react(batch, this.attempts.length)
    if (reaction instanceof Error) throw reaction
    if (reaction === 'hang') await new Promise(() => {})
    if (reaction === 'slow') await this.#released(signal)
    if (reaction === 'partly') await this.#storePartly(batch, signal, progress)
    const rejected = this.parks(batch)
    if (rejected.length > 0) {
      if (progress.park === null) throw refusedRecord(rejected[0]!)
      await progress.park(rejected)
      if (this.afterPark === 'hang') await new Promise(() => {})
    }
    this.stored.push(...seqs)
    if (reaction === 'lost') throw transient('connection_lost')
  }

  async #storePartly(
    { messages, recordOffset }: Batch,
    signal: AbortSignal,
    progress: AttemptProgress,
  ): Promise<void> {
    let stored = 0
    for (const message of messages) {
      for (let index = 0; index < message.recordCount; index += 1) {
        stored += 1
        if (stored <= recordOffset) continue
        if (this.takes === 0) {
          if (this.isSlowWhenFull) await this.#released(signal)
          throw this.#full(stored - 1)
        }
        if (stored > recordOffset + 1) await progress.beforeRequest()
        if (signal.aborted) throw transient('aborted')
        this.takes -= 1
        this.records.push(`${message.seq}:${recordPlace(message, index)}`)
        progress.stored(stored)
      }
    }
  }

  #full(storedRecords: number): DeliveryError {
    const { class: errorClass, code, message, retryAfterMs } = this.full
    return new DeliveryError(errorClass, code, message, { retryAfterMs, storedRecords })
  }

  #released(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        this.#slow.delete(go)
        end()
      }
      const go = () => settle(resolve)
      this.#slow.add(go)
      signal.addEventListener('abort', () => settle(() => reject(transient('aborted'))), { once: true })
    })
  }
}

export function transient(code = 'unreachable', retryAfterMs?: number): DeliveryError {
  return new DeliveryError('transient', code, `The destination says ${code}.`, { retryAfterMs })
}

export function permanent(code = 'refused', failedSeq?: number): DeliveryError {
  return new DeliveryError('permanent', code, `The destination says ${code}.`, { failedSeq })
}

/** As a database says it of a statement that it cancelled, or anybody of an attempt that may have been stored. */
export function timeout(timedOut: 'rolled_back' | 'unknown'): DeliveryError {
  const message = 'The destination took too long.'
  return new DeliveryError('transient', timedOut === 'unknown' ? 'timeout' : '57014', message, { timedOut })
}

/** Rejects every batch that holds one of these messages, as a database rejects a bad row. */
export function refusing(...seqs: number[]): (batch: Batch) => Reaction {
  return (batch) => (batch.messages.some((message) => seqs.includes(message.seq)) ? permanent() : 'store')
}

function refusedRecord(rejected: RejectedRecord): DeliveryError {
  const { seq: failedSeq, code, message } = rejected
  return new DeliveryError('permanent', code, message, { fault: 'records', failedSeq, rejected })
}
