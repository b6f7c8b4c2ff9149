/**
 * The times of a lane: its clock and its sleep, the back-off after a failure, and the rate of a destination.
 */
import type { DeliveryError } from '../destinations/driver.ts'
import type { LaneState } from '../metadata/lane-state.ts'
import { backoffMs } from '../platform/backoff.ts'
import { Waits } from '../platform/waits.ts'

/**
 * The clock of delivery. Waits use the monotonic clock, so that jumps of the wall clock do not affect them; wall-clock
 * times are only for people. It is a parameter so that tests can advance time.
 */
export interface Clock {
  /** Wall clock, ms since the epoch. May jump either way. */
  now(): number
  /** Never goes back. Only differences are meaningful. */
  monotonicMs(): number
  /** Calls back once, after at least this long on the monotonic clock. Returns a function that cancels it. */
  wake(afterMs: number, callback: () => void): () => void
}

/** The limit of setTimeout; a longer delay would fire immediately. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  wake(afterMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(afterMs, 0), longestTimerMs))
    return () => clearTimeout(timer)
  },
}

/** How often the set of lanes looks for messages that a lane has missed: the maximum cost of a lost notification. */
export const pollIntervalMs = 5_000

/**
 * A lane's sleep: until a time, a notification or an interruption. One that arrives while the lane is awake ends its
 * next sleep immediately.
 */
export class Sleeper {
  readonly #sleeps: Waits
  #isInterrupted = false
  #isNotified = false
  #isIdle = false

  constructor(clock: Clock) {
    this.#sleeps = new Waits(clock)
  }

  /** A command, or the end of the lane, is waiting: ends any sleep. */
  interrupt(): void {
    this.#isInterrupted = true
    this.#sleeps.end()
  }

  /** There are new messages: ends a sleep that waits for messages. */
  notify(): void {
    this.#isNotified = true
    if (this.#isIdle) this.#sleeps.end()
  }

  /** Forgets earlier notifications. Called before the lane looks for messages. */
  arm(): void {
    this.#isNotified = false
  }

  get isNotified(): boolean {
    return this.#isNotified
  }

  /** Sleeps for this time regardless of notifications. Infinity: until it is interrupted, without a timer. */
  async sleep(ms: number): Promise<void> {
    await this.#sleep(ms)
  }

  /** Sleeps for at most `longestMs`. */
  async waitForNotify(longestMs: number): Promise<void> {
    if (this.#isNotified) return
    this.#isIdle = true
    await this.#sleep(longestMs)
    this.#isIdle = false
  }

  /** Like `waitForNotify`, but a notification does not end the first `quietMs`. */
  async gather(longestMs: number, quietMs: number): Promise<void> {
    const isInterrupted = await this.#sleep(Math.min(quietMs, longestMs))
    if (!isInterrupted && longestMs > quietMs) await this.waitForNotify(longestMs - quietMs)
  }

  /** Returns true when the sleep was interrupted. */
  async #sleep(ms: number): Promise<boolean> {
    if (!this.#isInterrupted) await this.#sleeps.wait(ms)
    const isInterrupted = this.#isInterrupted
    this.#isInterrupted = false
    return isInterrupted
  }
}

/**
 * Limits long synchronous work to one piece per turn of the event loop, so that timers, sockets and other lanes get
 * their turn in between. Otherwise reads that were requested together would run in one turn, because they wait only for
 * each other.
 */
export class EventLoopTurns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves when it is the caller's turn, immediately if no one is waiting. First come, first served. */
  take(): Promise<void> {
    const turn = this.#last
    this.#last = turn.then(() => new Promise((resolve) => setImmediate(resolve)))
    return turn
  }
}

/**
 * Determines when a failed lane retries, and when it is stalled (docs/dev/contract.md#retry). All waits use the
 * monotonic clock; the wall-clock times in the lane's row are for people and for restarts.
 */
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

/** Timers fire late: a request that is late by at most this much does not move later slots. */
const latenessMs = 50

/**
 * Applies a destination's `rate`: determines when its next request can start. Slots are evenly spaced, so no time window
 * has more requests than the rate allows, and there is no burst after a pause.
 */
export class RateGate {
  readonly #clock: Clock
  #nextSlotAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Monotonic time of the next free slot, which can be in the past. */
  get nextSlotAt(): number {
    return this.#nextSlotAt
  }

  /** Takes the next slot and returns its monotonic time. */
  take(requestsPerSecond: number | null): number {
    if (requestsPerSecond === null) return 0
    const now = this.#clock.monotonicMs()
    const slotAt = this.#nextSlotAt > now - latenessMs ? this.#nextSlotAt : now
    this.#nextSlotAt = slotAt + 1000 / requestsPerSecond
    return slotAt
  }

  /** Returns the last taken slot unused. */
  returnSlot(slotAt: number): void {
    this.#nextSlotAt = Math.min(this.#nextSlotAt, slotAt)
  }

  /** Takes the next slot and waits for it; resolves early when `signal` is aborted. */
  async wait(requestsPerSecond: number | null, signal: AbortSignal): Promise<void> {
    const waitMs = this.take(requestsPerSecond) - this.#clock.monotonicMs()
    if (waitMs <= 0 || signal.aborted) return
    await new Promise<void>((resolve) => {
      const done = () => {
        cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = this.#clock.wake(waitMs, done)
      signal.addEventListener('abort', done, { once: true })
    })
  }
}
