/**
 * Measures how long the records of a lane take from their acceptance to the destination, and how long its attempts
 * take. The counts are gathered here and written with a save of the lane's row, at most every 10 s and when the lane is
 * closed. A crash, or a takeover by another node, loses what was gathered since: statistics of 10 s, and no record.
 *
 *   stored, attempted ──▶ gathered by hour ──take──▶ a save of the row
 *                    └──▶ counters since this process has the lane, for `/metrics`
 */
import type { StoredMessage } from '../log/buffer.ts'
import type { LatencyOfHour } from '../metadata/lane-latency.ts'
import { DurationHistogram } from '../platform/duration-histogram.ts'
import { Histogram, type HistogramCounts, latencySecondsBounds } from '../platform/histogram.ts'
import { hourMs } from '../platform/quantities.ts'
import type { Clock } from './clock.ts'

export const writeLatencyEveryMs = 10_000

interface Gathered {
  hourMs: number
  records: DurationHistogram
  delivered: DurationHistogram
  failed: DurationHistogram
}

export type Measured = Pick<StoredMessage, 'seq' | 'receivedMs' | 'recordCount'>

export class LaneLatency {
  readonly #clock: Clock
  readonly #seconds = new Histogram(latencySecondsBounds)
  #hours: Gathered[] = []
  /** Monotonic. */
  #takenAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The destination has these messages now, except for `leftOut` records of each. Messages that were accepted in the
   * same millisecond are counted together.
   */
  stored<Message extends Measured>(
    messages: readonly Message[],
    leftOut: (message: Message) => number = () => 0,
  ): void {
    const now = this.#clock.now()
    for (let index = 0; index < messages.length; ) {
      const { receivedMs } = messages[index]!
      let records = 0
      for (; index < messages.length && messages[index]!.receivedMs === receivedMs; index += 1)
        records += messages[index]!.recordCount - leftOut(messages[index]!)
      if (records <= 0) continue
      const ms = Math.max(0, now - receivedMs)
      this.#hour(now).records.observe(ms, records)
      this.#seconds.observe(ms / 1_000, records)
    }
  }

  attempted(outcome: 'delivered' | 'failed', tookMs: number): void {
    this.#hour(this.#clock.now())[outcome].observe(tookMs)
  }

  /** Seconds from acceptance to the destination, by record. */
  get seconds(): HistogramCounts {
    return this.#seconds.countsOf(0)
  }

  /** The time until `take` has something; Infinity when nothing is gathered. */
  get dueInMs(): number {
    if (this.#hours.length === 0) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#takenAt + writeLatencyEveryMs - this.#clock.monotonicMs())
  }

  /** Everything gathered, to be written now. Empty while it is not due, except for the last save of the lane. */
  take(isLast: boolean): LatencyOfHour[] {
    if (this.#hours.length === 0 || (!isLast && this.dueInMs > 0)) return []
    const taken = this.#hours.map(({ hourMs, records, delivered, failed }) => ({
      hourMs,
      counts: { records: records.sparse(), delivered: delivered.sparse(), failed: failed.sparse() },
    }))
    this.#hours = []
    this.#takenAt = this.#clock.monotonicMs()
    return taken
  }

  #hour(nowMs: number): Gathered {
    const startMs = nowMs - (nowMs % hourMs)
    let hour = this.#hours.at(-1)
    if (hour?.hourMs !== startMs) {
      hour = {
        hourMs: startMs,
        records: new DurationHistogram(),
        delivered: new DurationHistogram(),
        failed: new DurationHistogram(),
      }
      this.#hours.push(hour)
    }
    return hour
  }
}
