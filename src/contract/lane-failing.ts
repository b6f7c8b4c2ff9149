/**
 * When a lane counts as failing for people, whatever its `lane_state` in the API: a retry has failed as well, or its
 * message was rejected for good, and it began a minute ago. One failed attempt is everyday; a minute of them is not.
 * Free of schemas, for pages and threads alike.
 */
import type { LaneStatus } from './destination.ts'

/** From the first failure on. */
export const failingAfterMs = 60_000

export type FailureFacts = Pick<LaneStatus, 'lane_state' | 'attempts' | 'first_failed_ts'> & {
  readonly last_error: { readonly class: 'transient' | 'permanent' } | null
}

/** `nowMs`: by the service's clock, which dated the first failure. A destination that is blocked by hand is not tried. */
export function isFailing(lane: FailureFacts, nowMs: number): boolean {
  if (lane.lane_state === 'blocked' || lane.first_failed_ts === null) return false
  const isRepeated = lane.attempts >= 2 || lane.last_error?.class === 'permanent'
  return isRepeated && nowMs - Date.parse(lane.first_failed_ts) >= failingAfterMs
}
