/**
 * Replays of ranges of messages: requested, listed and cancelled by users, run by the owner of the lane (`ParkedStore`).
 * A cancelled replay can still make progress once: the batch that is being delivered is counted.
 */
import { v7 } from 'uuid'
import type { Replay } from '../contract/replays.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Cursor } from '../log/buffer.ts'
import { dayMs } from '../platform/quantities.ts'
import type { Audited, RecordChange } from './audit.ts'
import {
  newLaneState,
  type RangeChange,
  type RangeReplay,
  type ReplayProgress,
  storedFields,
} from './lane-state.ts'
import { type DestinationRef, isoTime, normaliseId, type ReplayRow, toFlag } from './tables.ts'
import type { Connection } from './transactions.ts'

const { replaysPerLane, finishedReplaysPerLane, finishedReplayDays } = resourceLimits

/** The range of a new replay, as it was counted. */
export interface NewReplay
  extends Pick<Replay, 'from' | 'to' | 'messages' | 'records' | 'bytes' | 'first_seq' | 'last_seq'> {
  /** The position before the first message. */
  after: Cursor
  throughSeq: number
}

/** The part of a replay that does not change. */
interface RequestedReplay extends NewReplay {
  created_by: Replay['created_by']
}

export interface ReplayStore {
  create(
    destination: Required<DestinationRef>,
    range: NewReplay,
  ): Promise<{ kind: 'created'; replay: Replay } | { kind: 'full' } | { kind: 'not_found' }>
  /** Newest first. */
  list(destination: DestinationRef): Promise<Replay[]>
  get(destination: DestinationRef, replayId: string): Promise<Replay | null>
  cancel(
    destination: Required<DestinationRef>,
    replayId: string,
  ): Promise<'cancelled' | 'finished' | 'not_found'>
}

export function replays(db: Connection, now: () => number, inAudited: Audited): ReplayStore {
  return {
    create: (destination, range) =>
      inAudited((trx, record) => create(trx, { destination, range, nowMs: now() }, record)),

    async list(destination) {
      const rows = await ofDestination(db, destination)
        .where((eb) =>
          eb.or([
            eb('replays.is_over', '=', 0),
            eb('replays.finished_ms', '>=', now() - finishedReplayDays * dayMs),
          ]),
        )
        .orderBy('replays.replay_id', 'desc')
        .execute()
      // A new replay removes those beyond the limit.
      const hidden = new Set(rows.filter(({ is_over }) => is_over === 1).slice(finishedReplaysPerLane))
      return rows.filter((row) => !hidden.has(row)).map(shown)
    },

    async get(destination, replayId) {
      const row = await one(db, destination, replayId)
      return row === undefined ? null : shown(row)
    },

    cancel: (destination, replayId) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, destination, replayId)
        if (row === undefined) return 'not_found'
        if (row.is_over === 1) return 'finished'
        await trx
          .updateTable('replays')
          .set({ state: 'cancelled', is_over: 1, finished_ms: now() })
          .where('replay_id', '=', row.replay_id)
          .execute()
        await record({
          workspaceId: destination.workspaceId,
          operation: 'cancelReplay',
          resourceId: row.destination_id,
          pipeId: destination.pipeId,
          before: { replay_id: row.replay_id, state: row.state },
          after: { replay_id: row.replay_id, state: 'cancelled' },
        })
        return 'cancelled'
      }),
  }
}

interface Creation {
  destination: Required<DestinationRef>
  range: NewReplay
  nowMs: number
}

async function create(
  trx: Connection,
  { destination, range, nowMs }: Creation,
  record: RecordChange,
): ReturnType<ReplayStore['create']> {
  const { workspaceId, pipeId } = destination
  const destinationId = normaliseId(destination.destinationId)
  if (!(await isOfWorkspace(trx, destination))) return { kind: 'not_found' }
  const active = await trx
    .selectFrom('replays')
    .select('replay_id')
    .where('destination_id', '=', destinationId)
    .where('is_over', '=', 0)
    .execute()
  if (active.length >= replaysPerLane) return { kind: 'full' }
  const replay_id = v7()
  const { from, to, messages, records } = range
  const entry = await record({
    workspaceId,
    operation: 'createReplay',
    resourceId: destinationId,
    pipeId,
    before: null,
    after: { replay_id, from, to, messages, records },
  })
  const created_by = entry?.actor ?? { kind: 'local', id: null, name: null }
  const request: RequestedReplay = { ...range, created_by }
  const row: ReplayRow = {
    replay_id,
    destination_id: destinationId,
    state: 'waiting',
    is_over: 0,
    created_ms: nowMs,
    finished_ms: null,
    request_json: JSON.stringify(request),
    progress_json: progressText(progressAt(destinationId, range.after)),
  }
  await trx.insertInto('replays').values(row).execute()
  await prune(trx, destinationId, nowMs)
  return { kind: 'created', replay: shown(row) }
}

/** The replay that runs, or else the oldest that waits. */
export async function nextRange(db: Connection, destinationId: string): Promise<ReplayRow | undefined> {
  // At most `replaysPerLane`. One runs at a time, and it is the oldest.
  return await db
    .selectFrom('replays')
    .selectAll()
    .where('destination_id', '=', destinationId)
    .where('is_over', '=', 0)
    .orderBy('replay_id')
    .limit(1)
    .executeTakeFirst()
}

export function rangeOf(row: ReplayRow): RangeReplay {
  const { after, throughSeq } = requestOf(row)
  const state = row.state === 'running' ? 'running' : 'waiting'
  return { replayId: row.replay_id, after, throughSeq, state, progress: progressOf(row) }
}

/** Runs in the transaction that saves the lane's row. */
export async function saveProgress(
  trx: Connection,
  { replayId, state, progress }: RangeChange,
  nowMs: number,
): Promise<void> {
  const isOver = state !== 'running'
  const progress_json = progressText(progress)
  await trx.updateTable('replays').set({ progress_json }).where('replay_id', '=', replayId).execute()
  await trx
    .updateTable('replays')
    .set({ state, is_over: toFlag(isOver), finished_ms: isOver ? nowMs : null })
    .where('replay_id', '=', replayId)
    .where('is_over', '=', 0)
    .execute()
}

function progressAt(destinationId: string, { seq, mark }: Cursor): ReplayProgress {
  return {
    position: { ...newLaneState(destinationId, seq), cursorMark: mark },
    startedMs: null,
    doneMessages: 0,
    parkedRecords: 0,
    expiredRecords: 0,
    batchNo: null,
  }
}

function progressText(progress: ReplayProgress): string {
  return JSON.stringify({ ...progress, position: storedFields(progress.position) })
}

function progressOf({ destination_id, progress_json }: ReplayRow): ReplayProgress {
  const progress = JSON.parse(progress_json) as ReplayProgress
  return { ...progress, position: { ...newLaneState(destination_id), ...progress.position } }
}

function requestOf({ request_json }: ReplayRow): RequestedReplay {
  return JSON.parse(request_json) as RequestedReplay
}

function shown(row: ReplayRow): Replay {
  const { after: _after, throughSeq: _throughSeq, created_by, ...requested } = requestOf(row)
  const { position, ...progress } = progressOf(row)
  const { lastError } = position
  return {
    replay_id: row.replay_id,
    state: row.state,
    ...requested,
    done_messages: progress.doneMessages,
    done_seq: progress.startedMs === null ? null : position.cursorSeq,
    replayed_records: position.deliveredRecords,
    parked_records: progress.parkedRecords,
    filtered_records: position.filteredRecords,
    expired_messages: position.droppedMessages,
    expired_records: progress.expiredRecords,
    attempts: position.attempts,
    next_attempt_ts: row.is_over === 1 ? null : isoTimeOrNull(position.nextAttemptMs),
    error: lastError && {
      code: lastError.code,
      message: lastError.message,
      column: lastError.column,
      value: lastError.value,
    },
    created_ts: isoTime(row.created_ms),
    created_by,
    started_ts: isoTimeOrNull(progress.startedMs),
    finished_ts: isoTimeOrNull(row.finished_ms),
  }
}

function isoTimeOrNull(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}

/** Removes replays that ended too long ago, or before `finishedReplaysPerLane` others. */
async function prune(trx: Connection, destinationId: string, nowMs: number): Promise<void> {
  const finished = await trx
    .selectFrom('replays')
    .select(['replay_id', 'finished_ms'])
    .where('destination_id', '=', destinationId)
    .where('is_over', '=', 1)
    .orderBy('replay_id', 'desc')
    .execute()
  const oldestMs = nowMs - finishedReplayDays * dayMs
  const gone = finished.filter(
    ({ finished_ms }, index) => index >= finishedReplaysPerLane || (finished_ms ?? 0) < oldestMs,
  )
  if (gone.length === 0) return
  const ids = gone.map(({ replay_id }) => replay_id)
  await trx.deleteFrom('replays').where('replay_id', 'in', ids).execute()
}

/** Selects replays of this destination, if it belongs to the workspace. */
function ofDestination(db: Connection, { workspaceId, destinationId }: DestinationRef) {
  return db
    .selectFrom('replays')
    .innerJoin('destinations', 'destinations.destination_id', 'replays.destination_id')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .selectAll('replays')
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('replays.destination_id', '=', normaliseId(destinationId))
}

async function one(
  db: Connection,
  destination: DestinationRef,
  replayId: string,
): Promise<ReplayRow | undefined> {
  return await ofDestination(db, destination)
    .where('replays.replay_id', '=', normaliseId(replayId))
    .executeTakeFirst()
}

async function isOfWorkspace(
  db: Connection,
  { workspaceId, destinationId }: DestinationRef,
): Promise<boolean> {
  const found = await db
    .selectFrom('destinations')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .select('destinations.destination_id')
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('destinations.destination_id', '=', normaliseId(destinationId))
    .executeTakeFirst()
  return found !== undefined
}
