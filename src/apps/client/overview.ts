/**
 * Derives facts from overviews: merges changes into the previous state, computes rates from two states, and finds
 * lanes that need attention. Pure.
 */
import { pulledTypes, waitingTypes } from '../../contract/destinations/lane-facts.ts'
import type { Overview, OverviewLane, OverviewPipe } from '../../contract/overview.ts'
import { laneWord, severity } from '../../contract/state-words.ts'

/** Records per second at one time: by pipe id (accepted), by destination id (delivered), and in total. */
export interface Rates {
  /** The time of the second overview. */
  atMs: number
  byId: ReadonlyMap<string, number>
  ingested: number
  delivered: number
}

/**
 * The complete current state. `answer` is the response to a request with the revision of `before`; it contains only
 * later changes unless it says otherwise. Unchanged pipes stay the same objects, except for the ages of their pending
 * messages.
 */
export function continued(before: Overview | null, answer: Overview): Overview {
  if (before === null || answer.since === null) return answer
  const seconds = (Date.parse(answer.server_ts) - Date.parse(before.server_ts)) / 1000
  const pipes = new Map(before.pipes.map((pipe) => [pipe.pipe_id, older(pipe, seconds)]))
  for (const pipeId of answer.removed_pipe_ids) pipes.delete(pipeId)
  for (const pipe of answer.pipes) pipes.set(pipe.pipe_id, pipe)
  const byName = (a: OverviewPipe, b: OverviewPipe) => (a.pipe_name < b.pipe_name ? -1 : 1)
  return { ...answer, since: null, removed_pipe_ids: [], pipes: [...pipes.values()].sort(byName) }
}

function older(pipe: OverviewPipe, seconds: number): OverviewPipe {
  if (pipe.lanes.every(({ lane }) => lane.pending_messages === 0)) return pipe
  const lanes = pipe.lanes.map((one) => {
    if (one.lane.pending_messages === 0) return one
    const age = one.lane.oldest_pending_age_seconds + seconds
    return { ...one, lane: { ...one.lane, oldest_pending_age_seconds: age } }
  })
  return { ...pipe, lanes }
}

/**
 * Null: the overviews are not from the same start of the service, or not in order, so their counters cannot be
 * compared.
 */
export function ratesBetween(before: Overview, now: Overview): Rates | null {
  const atMs = Date.parse(now.server_ts)
  const seconds = (atMs - Date.parse(before.server_ts)) / 1000
  if (seconds <= 0 || before.service.started_ts !== now.service.started_ts) return null
  const [earlier, later] = [counters(before), counters(now)]
  const byId = new Map<string, number>()
  for (const [id, value] of later) {
    const last = earlier.get(id)
    // A new pipe or lane has no earlier value. The counters of a restored lane can decrease.
    if (last !== undefined) byId.set(id, Math.max(0, value - last) / seconds)
  }
  const sum = (ids: readonly string[]) => ids.reduce((total, id) => total + (byId.get(id) ?? 0), 0)
  return {
    atMs,
    byId,
    ingested: sum(now.pipes.map((pipe) => pipe.pipe_id)),
    delivered: sum(now.pipes.flatMap((pipe) => pipe.lanes.map((lane) => lane.destination_id))),
  }
}

function counters({ pipes }: Overview): Map<string, number> {
  const all = new Map<string, number>()
  for (const { pipe_id: id, counters, lanes } of pipes) {
    all.set(id, counters.ingest_records)
    for (const one of lanes) all.set(one.destination_id, one.lane.delivered_records)
  }
  return all
}

export interface LaneOfPipe {
  pipe: OverviewPipe
  destination: OverviewLane
}

/** From this age of the oldest pending message on, a lane that delivers is behind. */
const behindAfterSeconds = 300

/**
 * Messages arrive faster than the lane delivers. Batches of object stores wait for more records, and messages of a pull
 * destination for its consumer: these lanes are never behind.
 */
export function isBehind(
  { destination_type: type, lane }: Pick<OverviewLane, 'destination_type' | 'lane'>,
  nowMs: number,
): boolean {
  if (pulledTypes.has(type) || waitingTypes.has(type)) return false
  const isOld = lane.pending_messages > 0 && lane.oldest_pending_age_seconds >= behindAfterSeconds
  return isOld && severity({ lane }, nowMs) === 0
}

/** Lanes that deliver, but are behind; the one with the oldest message first. */
export function lanesBehind({ pipes, server_ts }: Overview): LaneOfPipe[] {
  const nowMs = Date.parse(server_ts)
  return pipes
    .flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
    .filter(({ destination }) => isBehind(destination, nowMs))
    .sort((a, b) => ageOf(b) - ageOf(a))
}

function ageOf({ destination }: LaneOfPipe): number {
  return destination.lane.oldest_pending_age_seconds
}

/** Lanes that fail or are blocked: those that need attention first, then by waiting time. */
export function troubledLanes({ pipes, server_ts }: Overview): LaneOfPipe[] {
  const nowMs = Date.parse(server_ts)
  const all = pipes.flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
  return all
    .filter(({ destination }) => severity(destination, nowMs) > 0)
    .sort((a, b) => severity(b.destination, nowMs) - severity(a.destination, nowMs) || ageOf(b) - ageOf(a))
}

/** True if the search text is in the name or description of the pipe, or in the name, type or state of a lane. */
export function matchesPipe(pipe: OverviewPipe, wanted: string): boolean {
  const filter = wanted.trim().toLowerCase()
  const words = [
    pipe.pipe_name,
    pipe.pipe_description,
    pipe.pipe_id,
    pipe.pipe_status,
    ...pipe.lanes.flatMap((one) => [
      one.destination_name,
      `${pipe.pipe_name}/${one.destination_name}`,
      one.destination_type,
      one.lane.lane_state,
      laneWord(one),
      one.destination_id,
    ]),
  ]
  return words.some((word) => word.toLowerCase().includes(filter))
}
