/**
 * The one word that people read for a state, on every surface. The API keeps its own enumerations
 * (docs/dev/contract.md#lane-status). Free of schemas, for programs, pages and threads alike.
 *
 *   idle        nothing is waiting
 *   delivering  messages are waiting and the last attempt did not fail
 *   retrying    an attempt failed; the lane tries again by itself
 *   stuck       the destination rejected a message permanently: a person must act
 *   blocked     a user blocked the destination
 *
 * A pipe is `active` or `paused`.
 */
import type { LaneStatus } from './destination.ts'
import type { MessageState } from './message.ts'

export type LaneWord = 'idle' | 'delivering' | 'retrying' | 'stuck' | 'blocked'
type OfLane<Key extends keyof LaneStatus> = { readonly lane: Pick<LaneStatus, Key> }

export function laneWord({
  lane,
}: OfLane<'lane_state' | 'blocking_msg_id' | 'first_failed_ts' | 'last_error'>): LaneWord {
  const { lane_state: state } = lane
  if (state === 'idle' || state === 'blocked') return state
  if (lane.blocking_msg_id !== null && lane.last_error?.class === 'permanent') return 'stuck'
  // A batch whose rejected message is still being searched for is `flowing` in the API.
  const hasFailed = state !== 'flowing' || lane.blocking_msg_id !== null || lane.first_failed_ts !== null
  return hasFailed ? 'retrying' : 'delivering'
}

/** `stuck` in the API is every message that failed. `lane`: the lane that the message blocks; undefined if it is not known. */
export function messageWord(
  state: MessageState,
  lane: Pick<LaneStatus, 'lane_state' | 'last_error'> | undefined,
): MessageState | LaneWord {
  if (state !== 'stuck') return state
  if (lane?.lane_state === 'blocked') return 'blocked'
  return lane?.last_error?.class === 'permanent' ? 'stuck' : 'retrying'
}

/** From the first failure on. One failed attempt is normal; a minute of them needs attention. */
export const failingAfterMs = 60_000

export type FailureFacts = Pick<LaneStatus, 'lane_state' | 'attempts' | 'first_failed_ts'> & {
  readonly last_error: { readonly class: 'transient' | 'permanent' } | null
}

/**
 * When a failure is reported by `lane.failing`, `pipectl_lane_failing` and `is_failing`: it lasts for a minute, and a retry has failed
 * too or the message was rejected permanently. `nowMs`: by the service's clock, which dated the first failure. A
 * destination that a user blocked is not tried.
 */
export function isFailing(lane: FailureFacts, nowMs: number): boolean {
  if (lane.lane_state === 'blocked' || lane.first_failed_ts === null) return false
  const isRepeated = lane.attempts >= 2 || lane.last_error?.class === 'permanent'
  return isRepeated && nowMs - Date.parse(lane.first_failed_ts) >= failingAfterMs
}

/** 0: the lane works; 1: it retries, which can pass by itself; from 2 on it needs attention, the greater the sooner. */
export function severity(
  one: OfLane<'lane_state' | 'blocking_msg_id' | 'first_failed_ts' | 'last_error' | 'attempts'>,
  nowMs: number,
): number {
  const word = laneWord(one)
  if (one.lane.lane_state === 'stalled') return 4
  if (word === 'blocked') return 3
  if (word === 'stuck' || isFailing(one.lane, nowMs)) return 2
  return word === 'retrying' ? 1 : 0
}

export function needsAttention(one: Parameters<typeof severity>[0], nowMs: number): boolean {
  return severity(one, nowMs) > 1
}

/** `3 need attention`: a number of lanes. */
export function needAttention(lanes: number): string {
  return `${lanes} ${lanes === 1 ? 'needs' : 'need'} attention`
}
