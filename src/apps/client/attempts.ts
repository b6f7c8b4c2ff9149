/** Describes a delivery attempt in words. */
import type { DeliveryAttempt } from '../../contract/attempts.ts'
import { duration } from '../../platform/quantities.ts'

/** `delivered` or `failed`, with the status of an HTTP endpoint. */
export function attemptOutcome({ outcome, response, is_replay }: DeliveryAttempt): string {
  const status = response === null ? outcome : `${outcome} ${response.status}`
  return is_replay ? `${status} (replay)` : status
}

export function attemptTook({ duration_ms: ms }: DeliveryAttempt): string {
  return ms < 1_000 ? `${ms} ms` : duration(ms / 1_000)
}
