/**
 * A destination of the tests' own, in-process: it keeps what it is given and answers as told. It stands for the world
 * outside, where the real drivers would be.
 */
import { type Batch, DeliveryError, type DestinationDriver } from '../../src/destinations/driver.ts'

/**
 * `lost`: stored, but the reply is lost. `hang`: neither answers nor minds being aborted. `slow`: answers only when
 * released, and rejects when aborted.
 */
export type Reaction = 'store' | 'lost' | 'hang' | 'slow' | Error

export interface RecordedAttempt {
  identity: string
  firstSeq: number
  lastSeq: number
  seqs: number[]
  records: number
  bodies: string[]
}

export class RecordingDestination {
  readonly attempts: RecordedAttempt[] = []
  /** Sequence numbers in the order they were stored; a repeated batch is there twice. */
  readonly stored: number[] = []
  opened = 0
  closed = 0
  aborts = 0
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
      deliver: (batch, signal) => this.#deliver(batch, signal),
      close: async () => {
        this.closed += 1
      },
    }
  }

  async #deliver(batch: Batch, signal: AbortSignal): Promise<void> {
    const { identity, firstSeq, lastSeq, messages, recordCount } = batch
    const bodies = messages.map((message) => message.body.toString())
    const seqs = messages.map((message) => message.seq)
    this.attempts.push({ identity, firstSeq, lastSeq, seqs, records: recordCount, bodies })
    signal.addEventListener('abort', () => {
      this.aborts += 1
    })
    const reaction = this.react(batch, this.attempts.length)
    if (reaction instanceof Error) throw reaction
    if (reaction === 'hang') await new Promise(() => {})
    if (reaction === 'slow') await this.#released(signal)
    this.stored.push(...seqs)
    if (reaction === 'lost') throw transient('connection_lost')
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

/** Refuses every batch that holds one of these messages, as a database refuses a bad row. */
export function refusing(...seqs: number[]): (batch: Batch) => Reaction {
  return (batch) => (batch.messages.some((message) => seqs.includes(message.seq)) ? permanent() : 'store')
}
