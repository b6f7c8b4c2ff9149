/**
 * What the screen shows: the workspace at one moment, and how fast records moved during the last half minute.
 * Loading asks the daemon; everything else here is pure.
 */
import type { Client } from '../client/client.ts'
import { allPipeDetails, severity } from '../client/workspace.ts'
import type { Destination } from '../contract/destination.ts'
import type { Pipe, PipeUsage } from '../contract/pipe.ts'

export interface PipeState {
  pipe: Pipe
  usage: PipeUsage | null
  destinations: Destination[]
}
export interface Snapshot {
  takenMs: number
  pipes: PipeState[]
}

/** Records per second, oldest first, by pipe id (taken in) and destination id (delivered). */
export type Rates = ReadonlyMap<string, readonly number[]>

const keptRates = 30

export async function loadSnapshot(client: Client, signal: AbortSignal): Promise<Snapshot> {
  const { pipes, usage_by_pipe: usage } = (await client.pipes.list(signal)).body
  const details = await allPipeDetails(client, pipes, signal)
  return {
    takenMs: Date.now(),
    pipes: details.map(({ pipe, destinations }) => ({
      pipe,
      destinations,
      usage: usage[pipe.pipe_id] ?? null,
    })),
  }
}

/** The rates with one more value each. A counter that went back (its window moved) counts as no movement. */
export function nextRates(rates: Rates, before: Snapshot | null, now: Snapshot): Rates {
  const next = new Map<string, readonly number[]>()
  const earlier = before === null ? new Map<string, number>() : counters(before)
  const seconds = before === null ? 1 : Math.max(0.001, (now.takenMs - before.takenMs) / 1000)
  for (const [id, value] of counters(now)) {
    const last = earlier.get(id)
    const known = rates.get(id) ?? []
    const rate = last === undefined ? [] : [Math.max(0, (value - last) / seconds)]
    next.set(id, [...known, ...rate].slice(-keptRates))
  }
  return next
}

function counters(snapshot: Snapshot): Map<string, number> {
  const all = new Map<string, number>()
  for (const { pipe, usage, destinations } of snapshot.pipes) {
    all.set(pipe.pipe_id, usage?.ingest_records ?? 0)
    for (const one of destinations) all.set(one.destination_id, one.lane.delivered_records)
  }
  return all
}

/** A line of the board: a pipe, or one of its lanes below it. */
export interface Row {
  /** Of the destination, or of the pipe itself. */
  id: string
  pipe: PipeState
  /** Null: the line of the pipe. */
  destination: Destination | null
}

/** Pipes with lanes in trouble first, then by name; within a pipe the worst lane first. */
export function rowsOf(snapshot: Snapshot, filter: string): Row[] {
  const worst = (one: PipeState) => Math.max(0, ...one.destinations.map(severity))
  const wanted = snapshot.pipes.filter((one) => matches(one, filter.trim().toLowerCase()))
  wanted.sort((a, b) => worst(b) - worst(a) || a.pipe.pipe_name.localeCompare(b.pipe.pipe_name, 'en'))
  return wanted.flatMap((pipe) => [
    { id: pipe.pipe.pipe_id, pipe, destination: null },
    ...[...pipe.destinations]
      .sort((a, b) => severity(b) - severity(a))
      .map((destination) => ({ id: destination.destination_id, pipe, destination })),
  ])
}

/** The first lane below this line, or from the top again, that needs somebody; null: none does. */
export function nextStuck(rows: readonly Row[], afterId: string | null): Row | null {
  const at = rows.findIndex((row) => row.id === afterId)
  const inOrder = [...rows.slice(at + 1), ...rows.slice(0, at + 1)]
  return inOrder.find((row) => row.destination !== null && severity(row.destination) > 1) ?? null
}

function matches(one: PipeState, filter: string): boolean {
  if (filter === '' || one.pipe.pipe_name.toLowerCase().includes(filter)) return true
  return one.destinations.some(
    (destination) =>
      destination.destination_name?.toLowerCase().includes(filter) ||
      destination.lane.lane_state.includes(filter) ||
      destination.destination_type.includes(filter),
  )
}

/** The part of a list that fits, with the selected line in it. */
export function visible(count: number, selected: number, height: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(selected - Math.floor(height / 2), count - height))
  return { from, to: Math.min(count, from + height) }
}
