/**
 * When a failed lane tries again, and when it has tried for too long (docs/dev/contract.md#retry). All waits are on the
 * monotonic clock and independent of the wall clock; the times in the lane's row are for people and for restarts.
 */
import type { DeliveryError } from '../destinations/driver.ts'
import type { LaneState } from '../metadata/lane-state.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Clock } from './clock.ts'

const firstRetryMs = 1_000
const longestRetryMs = 300_000
/**
 * An isolated message that was rejected for good, or a driver that ended its thread: only an operator's action will change
 * the outcome.
 */
export const isolatedRetryMs = 300_000
/** The error's code: a lane whose row says so is quarantined from the start. */
export const driverCrashed = 'driver_crashed'
const stalledRetryMs = 900_000
const longestRetryAfterMs = 3_600_000
/**
 * The rest of a wait is known after a restart only as a wall-clock time, and the wall clock may have jumped
 * meanwhile: no restarted lane trusts it for longer than this.
 */
export const longestWaitAfterRestartMs = 60_000

export interface RetryCase {
  /** Failures in a row, this one included: 1 or more. */
  failures: number
  /** The failing message is alone in its batch and the error is permanent. */
  isIsolated: boolean
  /** The window of eager retries is over. */
  isStalled: boolean
  retryAfterMs: number | undefined
}

/** Ms until the next attempt: exponential with full jitter, never less than the destination asked for. */
export function retryDelayMs(failure: RetryCase, random: () => number): number {
  const askedMs = Math.min(Math.max(failure.retryAfterMs ?? 0, 0), longestRetryAfterMs)
  return Math.max(ownDelayMs(failure, random), askedMs)
}

function ownDelayMs(failure: RetryCase, random: () => number): number {
  if (failure.isStalled) return stalledRetryMs
  if (failure.isIsolated) return isolatedRetryMs
  return Math.floor(random() * backoffMs(failure.failures, firstRetryMs, longestRetryMs))
}

/** The time that a restarted lane still waits, from the saved wall-clock time of its next attempt. */
export function waitAfterRestartMs(nextAttemptMs: number | null, nowMs: number): number {
  if (nextAttemptMs === null) return 0
  return Math.min(Math.max(nextAttemptMs - nowMs, 0), longestWaitAfterRestartMs)
}

export class RetryWindow {
  readonly #clock: Clock
  #nextAttemptAt: number
  #firstFailedAt: number | null = null
  /** In a row, not counting those after which a smaller batch followed at once. */
  #pauses: number
  #wasStalled = false

  /** Continues from the row, as far as its wall-clock times can be trusted. */
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

  /** Part of a batch was stored, or a smaller one follows at once: the back-off starts over. */
  resetBackoff(): void {
    this.#pauses = 0
  }

  failed(): void {
    this.#firstFailedAt ??= this.#clock.monotonicMs()
  }

  /** The pause after a failure. `hasStalled`: for the first time since the lane last recovered. */
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
