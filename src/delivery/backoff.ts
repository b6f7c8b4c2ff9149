/** How long a lane waits before it tries again (contract "Delivery", Retry). Pure; `random` gives 0 ≤ x < 1. */

export const firstRetryMs = 1_000
export const longestRetryMs = 300_000
/** A message that stands alone and was refused: only somebody's intervention will change the answer. */
export const blockedRetryMs = 300_000
export const stalledRetryMs = 900_000
export const longestRetryAfterMs = 3_600_000
/**
 * What is left of a wait is known after a restart only as a wall-clock time, and the wall clock may have jumped
 * meanwhile: no restarted lane trusts it for longer than this.
 */
export const longestWaitAfterRestartMs = 60_000

export interface RetryCase {
  /** Failures in a row, this one included: 1 or more. */
  failures: number
  /** The failing message stands alone and the refusal is permanent. */
  standsAlone: boolean
  /** The window of eager retries is over. */
  stalled: boolean
  retryAfterMs: number | undefined
}

/** Ms until the next attempt: exponential with full jitter, never less than the destination asked for. */
export function retryDelayMs(failure: RetryCase, random: () => number): number {
  const askedMs = Math.min(Math.max(failure.retryAfterMs ?? 0, 0), longestRetryAfterMs)
  return Math.max(ownDelayMs(failure, random), askedMs)
}

function ownDelayMs(failure: RetryCase, random: () => number): number {
  if (failure.stalled) return stalledRetryMs
  if (failure.standsAlone) return blockedRetryMs
  // 2^9 s is over the cap already; a larger exponent would only overflow.
  const ceilingMs = Math.min(firstRetryMs * 2 ** Math.min(failure.failures - 1, 9), longestRetryMs)
  return Math.floor(random() * ceilingMs)
}

/** What a restarted lane still waits, from the saved wall-clock time of its next attempt. */
export function waitAfterRestartMs(nextAttemptMs: number | null, nowMs: number): number {
  if (nextAttemptMs === null) return 0
  return Math.min(Math.max(nextAttemptMs - nowMs, 0), longestWaitAfterRestartMs)
}
