/** Reads lanes as they were last saved together with the history of some messages of their pipe, from one snapshot. */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { LaneState, PassedMessages } from './lane-state.ts'
import { shownLane } from './lane-store.ts'
import { normaliseId, type PipeRef } from './tables.ts'
import { type Connection, inSnapshot } from './transactions.ts'

export interface LaneRecord {
  state: LaneState
  runs: LaneRun[]
  /** The messages that currently have parked records. */
  parkedSeqs: ReadonlySet<number>
}

/** `before`: the lane started behind these messages. */
export type LaneRun = Omit<PassedMessages, 'kind'> & {
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'before'
}

/**
 * Returns the lanes of a pipe, oldest destination first, each as it was last saved. `runs` is the history of the
 * messages from `firstSeq` to `lastSeq`, both included: newest first, at most `shownHistoryRuns`. Empty for a pipe of
 * another workspace.
 */
export type LaneRecords = (pipe: PipeRef, firstSeq: number, lastSeq: number) => Promise<LaneRecord[]>

export function laneRecords(db: Connection): LaneRecords {
  return ({ workspaceId, pipeId }, firstSeq, lastSeq) =>
    inSnapshot(db, async (trx) => {
      const lanes = await trx
        .selectFrom('lanes')
        .innerJoin('destinations', 'destinations.destination_id', 'lanes.destination_id')
        .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
        .selectAll('lanes')
        .where('destinations.pipe_id', '=', normaliseId(pipeId))
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .orderBy('destinations.creation_order')
        .execute()
      const found: LaneRecord[] = []
      for (const lane of lanes) {
        const runs = await runsOf(trx, lane.destination_id, firstSeq, lastSeq)
        const parkedSeqs = await parkedOf(trx, lane.destination_id, firstSeq, lastSeq)
        found.push({ state: shownLane(lane), runs, parkedSeqs })
      }
      return found
    })
}

/** Runs do not overlap, so of those that begin before `firstSeq` only the last one can contain it. */
async function runsOf(
  trx: Connection,
  destinationId: string,
  firstSeq: number,
  lastSeq: number,
): Promise<LaneRun[]> {
  const own = trx.selectFrom('lane_history').where('destination_id', '=', destinationId)
  const before = await own
    .select('first_seq')
    .where('first_seq', '<=', firstSeq)
    .orderBy('first_seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  const rows = await own
    .select(['kind', 'attempts', 'first_seq as firstSeq', 'last_seq as lastSeq'])
    .select(['batch_last_seq as batchLastSeq', 'at_ms as atMs'])
    .where('first_seq', '>=', before?.first_seq ?? firstSeq)
    .where('first_seq', '<=', lastSeq)
    .orderBy('first_seq', 'desc')
    .limit(resourceLimits.shownHistoryRuns)
    .execute()
  return rows.filter((run) => run.lastSeq >= firstSeq)
}

async function parkedOf(
  trx: Connection,
  destinationId: string,
  firstSeq: number,
  lastSeq: number,
): Promise<Set<number>> {
  const rows = await trx
    .selectFrom('parked')
    .select('stream_seq')
    .distinct()
    .where('destination_id', '=', destinationId)
    .where('stream_seq', '>=', firstSeq)
    .where('stream_seq', '<=', lastSeq)
    .limit(resourceLimits.shownHistoryRuns)
    .execute()
  return new Set(rows.map(({ stream_seq }) => stream_seq))
}
