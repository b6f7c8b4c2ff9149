/**
 * The word that users see for a state, the same in every interface. The API keeps its own enumerations
 * (docs/dev/contract.md#lane-status). Free of schemas, because programs, pages and threads use it.
 *
 *   idle        no message is waiting
 *   delivering  messages are waiting and the last attempt did not fail
 *   retrying    an attempt failed; the lane retries automatically
 *   stuck       the destination permanently rejected a message: the user must act
 *   blocked     a user blocked the destination
 *
 * A pipe is `active` or `paused`.
 */
import type { LaneStatus } from './destination.ts'

/** The states of a message in a lane. `MessageLane` of `message.ts` explains them. */
export const messageStates = ['delivered', 'pending', 'stuck', 'parked', 'skipped', 'dropped'] as const
export type MessageState = (typeof messageStates)[number]

export type LaneWord = 'idle' | 'delivering' | 'retrying' | 'stuck' | 'blocked'
type OfLane<Key extends keyof LaneStatus> = { readonly lane: Pick<LaneStatus, Key> }

export function laneWord({
  lane,
}: OfLane<'lane_state' | 'blocking_msg_id' | 'first_failed_ts' | 'last_error'>): LaneWord {
  const { lane_state: state } = lane
  if (state === 'idle' || state === 'blocked') return state
  if (lane.blocking_msg_id !== null && lane.last_error?.class === 'permanent') return 'stuck'
  // The API reports `flowing` while the rejected message of a batch is still being searched for.
  const hasFailed = state !== 'flowing' || lane.blocking_msg_id !== null || lane.first_failed_ts !== null
  return hasFailed ? 'retrying' : 'delivering'
}

/**
 * In the API, every failed message is `stuck`. `lane` is the lane that the message blocks; undefined if it is not
 * known.
 */
export function messageWord(
  state: MessageState,
  lane: Pick<LaneStatus, 'lane_state' | 'last_error'> | undefined,
): MessageState | LaneWord {
  if (state !== 'stuck') return state
  if (lane?.lane_state === 'blocked') return 'blocked'
  return lane?.last_error?.class === 'permanent' ? 'stuck' : 'retrying'
}

/** Counts from the first failure. One failed attempt is normal; a minute of failures needs attention. */
export const failingAfterMs = 60_000

export type FailureFacts = Pick<LaneStatus, 'lane_state' | 'attempts' | 'first_failed_ts'> & {
  readonly last_error: { readonly class: 'transient' | 'permanent' } | null
}

/**
 * True if a failure is reported by `lane.failing`, `pipectl_lane_failing` and `is_failing`: it has lasted for a
 * minute, and a retry failed too or the message was rejected permanently. `nowMs` is the time of the service's clock,
 * which also set the time of the first failure. A blocked destination is never failing.
 */
export function isFailing(lane: FailureFacts, nowMs: number): boolean {
  if (lane.lane_state === 'blocked' || lane.first_failed_ts === null) return false
  const isRepeated = lane.attempts >= 2 || lane.last_error?.class === 'permanent'
  return isRepeated && nowMs - Date.parse(lane.first_failed_ts) >= failingAfterMs
}

/**
 * 0: the lane works. 1: it retries, which can succeed without help. From 2 on it needs attention; higher is more
 * urgent. A stuck lane is the most urgent one: it never continues without the user.
 */
export function severity(
  one: OfLane<'lane_state' | 'blocking_msg_id' | 'first_failed_ts' | 'last_error' | 'attempts'>,
  nowMs: number,
): number {
  const word = laneWord(one)
  if (word === 'stuck') return 5
  if (one.lane.lane_state === 'stalled') return 4
  if (word === 'blocked') return 3
  if (isFailing(one.lane, nowMs)) return 2
  return word === 'retrying' ? 1 : 0
}

export function needsAttention(one: Parameters<typeof severity>[0], nowMs: number): boolean {
  return severity(one, nowMs) > 1
}

/** For example `3 need attention`, for a number of lanes. */
export function needAttention(lanes: number): string {
  return `${lanes} ${lanes === 1 ? 'needs' : 'need'} attention`
}
