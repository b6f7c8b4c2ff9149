/**
 * Measures the offset of this machine's clock from the database's clock, for people and for the log. No decision depends
 * on it: nodes compare only the database's own times, and local durations are monotonic.
 */
import type { ClusterStore } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'

const toleratedMs = 1_000

export class MeasuredClock {
  readonly #store: Pick<ClusterStore, 'now'>
  readonly #log: Logger
  readonly #now: () => number
  #offsetMs = 0
  #isSkewed = false

  constructor(store: Pick<ClusterStore, 'now'>, log: Logger, now: () => number) {
    this.#store = store
    this.#log = log
    this.#now = now
  }

  /** The database's clock minus this machine's, ms; 0 until it is known. */
  get offsetMs(): number {
    return this.#offsetMs
  }

  /** The database's clock as far as it is known, ms since the epoch. For people, never for a decision. */
  now(): number {
    return Math.round(this.#now() + this.#offsetMs)
  }

  async measure(): Promise<void> {
    const askedAt = performance.now()
    const [before, ofDatabase] = [this.#now(), await this.#store.now()]
    const tookMs = performance.now() - askedAt
    this.#offsetMs = ofDatabase - (before + tookMs / 2)
    // The true offset can be anywhere within the round trip, so half of that is subtracted.
    const isSkewed = Math.abs(this.#offsetMs) - tookMs / 2 > toleratedMs
    if (isSkewed && !this.#isSkewed) {
      this.#log.warn({ offset_ms: Math.round(this.#offsetMs) }, 'cluster.clock_skew')
    }
    this.#isSkewed = isSkewed
  }
}

/** `process.hrtime` in ns. It keeps counting while the process is stopped (SIGSTOP). */
export function monotonicNs(): bigint {
  return process.hrtime.bigint()
}

export function nsOf(ms: number): bigint {
  return BigInt(Math.round(ms * 1_000_000))
}

export function msOf(ns: bigint): number {
  return Number(ns) / 1_000_000
}
