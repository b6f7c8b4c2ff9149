/** The rows of the board, in their order. Pure. */
import type { Overview, OverviewLane, OverviewPipe } from '../../contract/overview.ts'
import { severity } from '../../contract/state-words.ts'
import { matchesPipe } from '../client/overview.ts'

/** A line of the board: a pipe, or one of its lanes. */
export interface Row {
  /** The id of the destination, or of the pipe. */
  id: string
  pipe: OverviewPipe
  /** Null: the line of the pipe. */
  destination: OverviewLane | null
  /** The result of `severity` for a lane; 0 for a pipe. */
  severity: number
}

/** Pipes whose lanes have problems first, then by name. Within a pipe, the most severe lane first. */
export function rowsOf(
  { pipes, server_ts }: Pick<Overview, 'pipes' | 'server_ts'>,
  filter: string,
  showsProblemsOnly = false,
): Row[] {
  const nowMs = Date.parse(server_ts)
  const worst = (one: OverviewPipe) => Math.max(0, ...one.lanes.map((lane) => severity(lane, nowMs)))
  const wanted = pipes.filter((one) => matchesPipe(one, filter) && (!showsProblemsOnly || worst(one) > 0))
  wanted.sort((a, b) => worst(b) - worst(a) || a.pipe_name.localeCompare(b.pipe_name, 'en'))
  return wanted.flatMap((pipe) => [
    { id: pipe.pipe_id, pipe, destination: null, severity: 0 },
    ...pipe.lanes
      .map((destination) => ({
        id: destination.destination_id,
        pipe,
        destination,
        severity: severity(destination, nowMs),
      }))
      .filter((row) => !showsProblemsOnly || row.severity > 0)
      .sort((a, b) => b.severity - a.severity),
  ])
}

/** The next lane below this line that needs attention, continuing at the top. Null: there is none. */
export function nextTroubled(rows: readonly Row[], afterId: string | null): Row | null {
  const at = rows.findIndex((row) => row.id === afterId)
  const inOrder = [...rows.slice(at + 1), ...rows.slice(0, at + 1)]
  return inOrder.find((row) => row.severity > 1) ?? null
}

/** The part of a list that fits on the screen and contains the selected line. */
export function visible(count: number, selected: number, height: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(selected - Math.floor(height / 2), count - height))
  return { from, to: Math.min(count, from + height) }
}
