/** Reads lanes as they were last saved together with the history of some messages of their pipe, from one snapshot. */
import { sql } from 'kysely'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { LaneState, PassedMessages, SeqRange } from './lane-state.ts'
import { shownLane } from './lane-store.ts'
import { normaliseId, type PipeRef } from './tables.ts'
import { type Connection, inSnapshot } from './transactions.ts'

export interface LaneRecord {
  state: LaneState
  /** The run of each message that has one, newest first. */
  runs: LaneRun[]
  /** The messages that currently have parked records. */
  parkedSeqs: ReadonlySet<number>
}

/** `before`: the lane started behind these messages. */
export type LaneRun = Omit<PassedMessages, 'kind'> & {
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'before'
}

/**
 * Returns the lanes of a pipe, oldest destination first, each as it was last saved, with the history of these messages,
 * at most a few hundred. Empty for a pipe of another workspace.
 */
export type LaneRecords = (pipe: PipeRef, seqs: readonly number[]) => Promise<LaneRecord[]>

export function laneRecords(db: Connection): LaneRecords {
  return ({ workspaceId, pipeId }, seqs) =>
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
        const runs = seqs.length === 0 ? [] : await runsOf(trx, lane.destination_id, seqs)
        const parkedSeqs = await parkedOf(trx, lane.destination_id, seqs)
        found.push({ state: shownLane(lane), runs, parkedSeqs })
      }
      return found
    })
}

/** Runs do not overlap, so only the last one that begins at or before a message can contain it. */
async function runsOf(trx: Connection, destinationId: string, seqs: readonly number[]): Promise<LaneRun[]> {
  const wanted = sql.join(seqs.map((seq) => sql`(CAST(${seq} AS bigint))`))
  const { rows } = await sql<LaneRun>`
    SELECT kind, attempts, first_seq AS "firstSeq", last_seq AS "lastSeq",
      batch_last_seq AS "batchLastSeq", at_ms AS "atMs"
    FROM lane_history WHERE destination_id = ${destinationId} AND first_seq IN (
      SELECT (SELECT max(first_seq) FROM lane_history
        WHERE destination_id = ${destinationId} AND first_seq <= wanted.column1)
      FROM (VALUES ${wanted}) AS wanted)
    ORDER BY first_seq DESC`.execute(trx)
  return rows.filter(({ firstSeq, lastSeq }) => seqs.some((seq) => firstSeq <= seq && seq <= lastSeq))
}

async function parkedOf(
  trx: Connection,
  destinationId: string,
  seqs: readonly number[],
): Promise<Set<number>> {
  if (seqs.length === 0) return new Set()
  const rows = await trx
    .selectFrom('parked')
    .select('stream_seq')
    .distinct()
    .where('destination_id', '=', destinationId)
    .where('stream_seq', 'in', seqs)
    .execute()
  return new Set(rows.map(({ stream_seq }) => stream_seq))
}

export interface RunQuery {
  destinationId: string
  kind: 'parked' | 'skipped' | 'dropped'
  beforeSeq: number
}

/** Newest first. Messages before `fromSeq` were not looked at; 1: there are none. */
export interface FoundRuns {
  ranges: SeqRange[]
  fromSeq: number
}

/**
 * Finds where messages of this kind can be in a lane. Such messages are rare, and no index leads to them, so one call
 * looks at a limited number of the newest runs before `beforeSeq`. Empty for a destination of another workspace.
 */
export type RunsOfKind = (pipe: PipeRef, query: RunQuery) => Promise<FoundRuns>

const { searchedHistoryRuns, messagesPerPage } = resourceLimits

export function runsOfKind(db: Connection): RunsOfKind {
  return ({ workspaceId, pipeId }, query) =>
    inSnapshot(db, async (trx) => {
      const destinationId = normaliseId(query.destinationId)
      const own = await trx
        .selectFrom('destinations')
        .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
        .select('destinations.destination_id')
        .where('destinations.destination_id', '=', destinationId)
        .where('pipes.pipe_id', '=', normaliseId(pipeId))
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .executeTakeFirst()
      if (own === undefined) return { ranges: [], fromSeq: 1 }
      const inHistory = await runsInHistory(trx, { ...query, destinationId })
      if (query.kind !== 'parked') return inHistory
      return union([inHistory, await parkedBefore(trx, { ...query, destinationId })])
    })
}

async function runsInHistory(
  trx: Connection,
  { destinationId, kind, beforeSeq }: RunQuery,
): Promise<FoundRuns> {
  const newest = trx
    .selectFrom('lane_history')
    .select(['first_seq', 'last_seq', 'kind'])
    .where('destination_id', '=', destinationId)
    .where('first_seq', '<', beforeSeq)
    .orderBy('first_seq', 'desc')
  const oldest = await newest
    .offset(searchedHistoryRuns - 1)
    .limit(1)
    .executeTakeFirst()
  const rows = await trx
    .selectFrom(newest.limit(searchedHistoryRuns).as('run'))
    .select(['first_seq', 'last_seq'])
    .where('kind', '=', kind)
    .orderBy('first_seq', 'desc')
    .execute()
  return {
    ranges: rows.map(({ first_seq, last_seq }) => [first_seq, last_seq]),
    fromSeq: oldest?.first_seq ?? 1,
  }
}

/** One more than a page, because a message can be parked by a run that is not. */
async function parkedBefore(trx: Connection, { destinationId, beforeSeq }: RunQuery): Promise<FoundRuns> {
  const rows = await trx
    .selectFrom('parked')
    .select('stream_seq')
    .distinct()
    .where('destination_id', '=', destinationId)
    .where('stream_seq', '<', beforeSeq)
    .orderBy('stream_seq', 'desc')
    .limit(messagesPerPage + 1)
    .execute()
  return {
    ranges: rows.map(({ stream_seq: seq }) => [seq, seq]),
    fromSeq: rows.length > messagesPerPage ? rows.at(-1)!.stream_seq : 1,
  }
}

/** All ranges from the greatest `fromSeq` on, newest first, without overlaps. */
export function union(all: readonly FoundRuns[]): FoundRuns {
  const fromSeq = Math.max(1, ...all.map((one) => one.fromSeq))
  const sorted = all
    .flatMap(({ ranges }) => ranges)
    .filter(([, last]) => last >= fromSeq)
    .sort(([, a], [, b]) => b - a)
  const ranges: SeqRange[] = []
  for (const [first, last] of sorted) {
    const from = Math.max(first, fromSeq)
    const newer = ranges.at(-1)
    if (newer !== undefined && newer[0] <= last + 1)
      ranges[ranges.length - 1] = [Math.min(newer[0], from), newer[1]]
    else ranges.push([from, last])
  }
  return { ranges, fromSeq }
}
