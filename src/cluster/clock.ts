/**
 * How far this machine's clock is from the database's: known for people and for the log. Nothing is decided by it; what nodes
 * compare with each other is the database's own time, and what a node measures for itself is monotonic.
 */
import type { ClusterStore } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'
import type { ClusterClock } from './cluster-node.ts'

const toleratedMs = 1_000

export class MeasuredClock implements ClusterClock {
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

  get offsetMs(): number {
    return this.#offsetMs
  }

  now(): number {
    return Math.round(this.#now() + this.#offsetMs)
  }

  async measure(): Promise<void> {
    const askedAt = performance.now()
    const [before, ofDatabase] = [this.#now(), await this.#store.now()]
    const tookMs = performance.now() - askedAt
    this.#offsetMs = ofDatabase - (before + tookMs / 2)
    // A slow reply says little: the true offset is anywhere within it.
    const isSkewed = Math.abs(this.#offsetMs) - tookMs / 2 > toleratedMs
    if (isSkewed && !this.#isSkewed) {
      this.#log.warn({ offset_ms: Math.round(this.#offsetMs) }, 'cluster.clock_skew')
    }
    this.#isSkewed = isSkewed
  }
}

/** `process.hrtime`, which goes on while the process stands still (SIGSTOP), in ns. */
export function monotonicNs(): bigint {
  return process.hrtime.bigint()
}

export function nsOf(ms: number): bigint {
  return BigInt(Math.round(ms * 1_000_000))
}

export function msOf(ns: bigint): number {
  return Number(ns) / 1_000_000
}
