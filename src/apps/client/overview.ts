/**
 * Computes facts from overviews: merges one that has only changes into the one before, measures how fast records move
 * between two of them, and finds the lanes that need attention. Pure.
 */
import type { Overview, OverviewLane, OverviewPipe } from '../../contract/overview.ts'
import { laneWord, severity } from '../../contract/state-words.ts'

/** Records per second at one moment: by pipe id (taken in), by destination id (delivered), and of all together. */
export interface Rates {
  /** When the second of the two overviews was taken. */
  atMs: number
  byId: ReadonlyMap<string, number>
  ingested: number
  delivered: number
}

/**
 * Everything as it is now. `answer` was asked for with the revision of `before`, and has only what changed after it unless it says
 * otherwise. Pipes that did not change stay the same objects, but for the ages of what waits in them.
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

/** Null: of one service start each, or not one after the other, so that the counters say nothing. */
export function ratesBetween(before: Overview, now: Overview): Rates | null {
  const atMs = Date.parse(now.server_ts)
  const seconds = (atMs - Date.parse(before.server_ts)) / 1000
  if (seconds <= 0 || before.service.started_ts !== now.service.started_ts) return null
  const [earlier, later] = [counters(before), counters(now)]
  const byId = new Map<string, number>()
  for (const [id, value] of later) {
    const last = earlier.get(id)
    // A new pipe or lane has no earlier value; a restored lane may count from less.
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

/** Lanes whose deliveries fail, or that are blocked: those that need attention first, then the one that has waited longest. */
export function troubledLanes({ pipes, server_ts }: Overview): LaneOfPipe[] {
  const nowMs = Date.parse(server_ts)
  const all = pipes.flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
  return all
    .filter(({ destination }) => severity(destination, nowMs) > 0)
    .sort(
      (a, b) =>
        severity(b.destination, nowMs) - severity(a.destination, nowMs) ||
        b.destination.lane.oldest_pending_age_seconds - a.destination.lane.oldest_pending_age_seconds,
    )
}

/** Whether the text of a search is in the pipe's name or description, or in a lane's name, type or state. */
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
