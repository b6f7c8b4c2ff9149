/**
 * Determines when a failed lane retries, and when it is stalled (docs/dev/contract.md#retry). All waits use the
 * monotonic clock; the wall-clock times in the lane's row are for people and for restarts.
 */
import type { DeliveryError } from '../destinations/driver.ts'
import type { LaneState } from '../metadata/lane-state.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Clock } from './clock.ts'

const firstRetryMs = 1_000
const longestRetryMs = 300_000
/**
 * The retry interval when only an operator's action will change the outcome: an isolated message was rejected
 * permanently, or a driver ended its thread.
 */
export const isolatedRetryMs = 300_000
/** An error code. A lane with this code in its row is quarantined from the start. */
export const driverCrashed = 'driver_crashed'
const stalledRetryMs = 900_000
const longestRetryAfterMs = 3_600_000
/**
 * After a restart, the rest of a wait is known only as a wall-clock time, and the clock can have jumped. A restarted
 * lane therefore waits at most this long.
 */
export const longestWaitAfterRestartMs = 60_000

export interface RetryCase {
  /** Consecutive failures including this one: at least 1. */
  failures: number
  /** The failing message is the only one in its batch and the error is permanent. */
  isIsolated: boolean
  /** The destination's `retry for` time has passed. */
  isStalled: boolean
  retryAfterMs: number | undefined
}

/**
 * Milliseconds until the next attempt: exponential back-off with full jitter, but never less than the destination
 * requested.
 */
export function retryDelayMs(failure: RetryCase, random: () => number): number {
  const askedMs = Math.min(Math.max(failure.retryAfterMs ?? 0, 0), longestRetryAfterMs)
  return Math.max(ownDelayMs(failure, random), askedMs)
}

function ownDelayMs(failure: RetryCase, random: () => number): number {
  if (failure.isStalled) return stalledRetryMs
  if (failure.isIsolated) return isolatedRetryMs
  return Math.floor(random() * backoffMs(failure.failures, firstRetryMs, longestRetryMs))
}

/** The remaining wait of a restarted lane, from the saved wall-clock time of its next attempt. */
export function waitAfterRestartMs(nextAttemptMs: number | null, nowMs: number): number {
  if (nextAttemptMs === null) return 0
  return Math.min(Math.max(nextAttemptMs - nowMs, 0), longestWaitAfterRestartMs)
}

export class RetryWindow {
  readonly #clock: Clock
  #nextAttemptAt: number
  #firstFailedAt: number | null = null
  /** Consecutive failures, except those after which a smaller batch followed immediately. */
  #pauses: number
  #wasStalled = false

  /** Continues from the row, as far as its wall-clock times are plausible. */
  constructor(row: LaneState, clock: Clock) {
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

  /** A part of the batch was stored, or a smaller batch follows immediately: the back-off restarts. */
  resetBackoff(): void {
    this.#pauses = 0
  }

  failed(): void {
    this.#firstFailedAt ??= this.#clock.monotonicMs()
  }

  /** The pause after a failure. `hasStalled` is true the first time since the lane last recovered. */
  pause(
    error: DeliveryError,
    maxRetrySeconds: number,
    random: () => number,
  ): { delayMs: number; hasStalled: boolean } {
    this.#pauses += 1
    const isStalled = this.isStalled(maxRetrySeconds)
    const delayMs = retryDelayMs(
      {
        failures: this.#pauses,
        isIsolated: error.class === 'permanent',
        isStalled,
        retryAfterMs: error.retryAfterMs,
      },
      random,
    )
    this.#nextAttemptAt = this.#clock.monotonicMs() + delayMs
    const hasStalled = isStalled && !this.#wasStalled
    this.#wasStalled = isStalled
    return { delayMs, hasStalled }
  }

  /** The lane recovered, or the failing message is gone. */
  clear(): void {
    this.#nextAttemptAt = 0
    this.#firstFailedAt = null
    this.#pauses = 0
    this.#wasStalled = false
  }
}
