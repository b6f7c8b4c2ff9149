/**
 * When a failed lane tries again, and when it has tried for too long: on the monotonic clock, whatever the wall clock
 * does. The times in the lane's row are for people and for restarts.
 */
import type { DeliveryError } from '../destinations/driver.ts'
import { retryDelayMs, waitAfterRestartMs } from './backoff.ts'
import type { Clock } from './clock.ts'
import type { LaneRow } from './delivery.ts'

export class RetryWindow {
  readonly #clock: Clock
  #nextAttemptAt: number
  #firstFailedAt: number | null = null
  /** In a row, not counting those that narrowed a batch. */
  #pauses: number
  #wasStalled = false

  /** Goes on where the row says, as far as its wall-clock times can be trusted. */
  constructor(row: LaneRow, clock: Clock) {
    this.#clock = clock
    this.#nextAttemptAt = clock.monotonicMs() + waitAfterRestartMs(row.nextAttemptMs, clock.now())
    this.#pauses = row.attempts
    if (row.firstFailedMs !== null) {
      this.#firstFailedAt = clock.monotonicMs() - Math.max(0, clock.now() - row.firstFailedMs)
    }
  }

  get nextAttemptAt(): number {
    return this.#nextAttemptAt
  }

  isStalled(maxRetrySeconds: number): boolean {
    if (this.#firstFailedAt === null) return false
    return this.#clock.monotonicMs() - this.#firstFailedAt >= maxRetrySeconds * 1000
  }

  tryNow(): void {
    this.#nextAttemptAt = 0
  }

  /** Part of a batch was stored, or a batch was narrowed: the destination is there, eagerness begins anew. */
  answered(): void {
    this.#pauses = 0
  }

  failed(): void {
    this.#firstFailedAt ??= this.#clock.monotonicMs()
  }

  /** The pause after a failure. `hasStalled`: for the first time since the lane last came through. */
  pause(
    error: DeliveryError,
    maxRetrySeconds: number,
    random: () => number,
  ): { delayMs: number; hasStalled: boolean } {
    this.#pauses += 1
    const stalled = this.isStalled(maxRetrySeconds)
    const delayMs = retryDelayMs(
      {
        failures: this.#pauses,
        standsAlone: error.class === 'permanent',
        stalled,
        retryAfterMs: error.retryAfterMs,
      },
      random,
    )
    this.#nextAttemptAt = this.#clock.monotonicMs() + delayMs
    const hasStalled = stalled && !this.#wasStalled
    this.#wasStalled = stalled
    return { delayMs, hasStalled }
  }

  /** The lane came through, or what failed is gone. */
  clear(): void {
    this.#nextAttemptAt = 0
    this.#firstFailedAt = null
    this.#pauses = 0
    this.#wasStalled = false
  }
}
