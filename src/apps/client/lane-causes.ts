/**
 * Groups the lanes of a workspace that need attention, or may soon, by cause and server: a database that is down is one
 * problem, however many lanes deliver to it. Pure.
 */
import { pulledTypes } from '../../contract/destinations/lane-facts.ts'
import type { Overview, OverviewLane } from '../../contract/overview.ts'
import { type LaneWord, laneWord, severity } from '../../contract/state-words.ts'
import { counted } from '../../platform/quantities.ts'
import { type Cause, causeOf } from './cause-words.ts'
import { isBehind, type LaneOfPipe, lanesBehind, troubledLanes } from './overview.ts'

export interface CauseGroup extends Cause {
  /** Stays the same while the group exists. */
  key: string
  /** For example `db.example.com:5432`. Empty: the lanes have none, or different ones. */
  server: string
  /** The result of `severity` of its worst lane; 0: the lanes deliver, but too slowly. */
  severity: number
  /** At least one. The most severe first, then the one that waits longest. */
  lanes: LaneOfPipe[]
}

const behind: Cause = {
  cause: 'falling behind',
  advice:
    'Records arrive faster than the destination stores them: look at the latency of the lane, and raise its concurrency or make the server faster.',
}

/** The cause of one lane. Null: it delivers as fast as records arrive. */
export function laneCause(
  destination: Pick<OverviewLane, 'destination_type' | 'lane'>,
  nowMs: number,
): Cause | null {
  if (severity(destination, nowMs) > 0) return causeOf(destination)
  return isBehind(destination, nowMs) ? behind : null
}

/** The most severe group first, then the one with the most lanes. */
export function causeGroups(overview: Overview): CauseGroup[] {
  const nowMs = Date.parse(overview.server_ts)
  const groups = new Map<string, CauseGroup>()
  const add = (one: LaneOfPipe, cause: Cause, laneSeverity: number) => {
    const server = one.destination.lane.lane_state === 'blocked' ? '' : serverOf(one)
    const key = `${cause.cause} ${server}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { ...cause, key, server, severity: laneSeverity, lanes: [one] })
    else group.lanes.push(one)
  }
  // The most severe lane of a group comes first, and gives the group its severity.
  for (const one of troubledLanes(overview))
    add(one, causeOf(one.destination), severity(one.destination, nowMs))
  for (const one of lanesBehind(overview)) add(one, behind, 0)
  return [...groups.values()].sort((a, b) => b.severity - a.severity || b.lanes.length - a.lanes.length)
}

/** A daemon of an earlier version does not report the server. */
function serverOf({ destination }: LaneOfPipe): string {
  return destination.destination_server ?? destination.destination_target
}

/** `connection refused, db.example.com:5432, 4 lanes` */
export function groupLine({ cause, server, lanes }: CauseGroup): string {
  return [cause, server, counted(lanes.length, 'lane')].filter((part) => part !== '').join(', ')
}

/** The other lanes with the cause and server of this one. */
export function withSameCause(groups: readonly CauseGroup[], destinationId: string): LaneOfPipe[] {
  const has = ({ lanes }: CauseGroup) =>
    lanes.some(({ destination }) => destination.destination_id === destinationId)
  const lanes = groups.find(has)?.lanes ?? []
  return lanes.filter(({ destination }) => destination.destination_id !== destinationId)
}

/** Each state of these lanes with the number of lanes in it, the worst first. */
export function stateCounts(lanes: readonly LaneOfPipe[]): [word: LaneWord, lanes: number][] {
  const words = lanes.map(({ destination }) => laneWord(destination))
  const countOf = (word: LaneWord) => words.filter((one) => one === word).length
  return worstFirst.map((word): [LaneWord, number] => [word, countOf(word)]).filter(([, found]) => found > 0)
}

const worstFirst = ['stuck', 'blocked', 'retrying', 'delivering', 'idle'] as const

/** A retry can help: a message waits for the next attempt, and no user blocked the lane. */
export function canRetry({ destination }: LaneOfPipe): boolean {
  return (
    destination.lane.blocking_msg_id !== null &&
    destination.lane.lane_state !== 'blocked' &&
    !pulledTypes.has(destination.destination_type)
  )
}
