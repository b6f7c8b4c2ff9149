/** When a failed request to the daemon is tried again. */
import { backoffMs } from '../../platform/backoff.ts'
import { ApiFailure, UnreachableFailure } from '../client/failure.ts'

const longestWaitMs = 15_000

/**
 * The wait before another attempt: as long as the daemon asks, otherwise growing with `attempt`, from 1. Null: another
 * attempt would not help.
 */
export function retryWaitMs(error: unknown, attempt: number, firstMs = 500): number | null {
  const growing = backoffMs(attempt, firstMs, longestWaitMs)
  if (error instanceof UnreachableFailure) return growing
  if (!(error instanceof ApiFailure)) return null
  const mayPass = error.status === 429 || error.status === 408 || error.status >= 500
  return mayPass ? (error.retryAfterMs ?? growing) : null
}

export function tryingAgain(reason: string, waitMs: number): string {
  return `${reason}; trying again in ${Math.ceil(waitMs / 1000)} s`
}
