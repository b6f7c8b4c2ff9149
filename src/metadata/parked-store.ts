/** Parked records for delivery (`ParkedStore`), and their changes that are saved with a lane's row. */
import { holdLane } from './lane-fence.ts'
import { recordOutcome } from './lane-history.ts'
import type { LaneChange, RangeStore } from './lane-state.ts'
import { bodyOf, causeColumns, cutParked, insertParked, nextReplayNo, removeParked } from './parked-rows.ts'
import { type ParkedStore, parkedRowBytes, type Replay } from './parked-store-port.ts'
import { takenByPipe } from './pipe-parked-rows.ts'
import { nextRange, rangeOf, saveProgress } from './replays.ts'
import { normaliseId, type ParkedRow } from './tables.ts'
import { type Connection, inSnapshot, inWriteTransaction } from './transactions.ts'

export function rangeStore(db: Connection, now: () => number): RangeStore {
  return {
    async nextRange(destinationId) {
      const row = await nextRange(db, normaliseId(destinationId))
      return row === undefined ? null : rangeOf(row)
    },

    numberRange: (owner) =>
      inWriteTransaction(db, async (trx) => {
        await holdLane(trx, owner)
        return await nextReplayNo(trx, normaliseId(owner.destinationId), null, now())
      }),
  }
}

export function parkedStore(db: Connection, now: () => number): ParkedStore {
  return {
    async counts(destinationId) {
      const id = normaliseId(destinationId)
      const sums = await db
        .selectFrom('parked_sums')
        .select(['rows', 'dropped_records'])
        .where('destination_id', '=', id)
        .executeTakeFirst()
      const rows = sums?.rows ?? 0
      const isReplaying = rows > 0 && (await firstReplaying(db, id)) !== undefined
      const hasRanges = (await nextRange(db, id)) !== undefined
      return { rows, isReplaying, droppedRecords: sums?.dropped_records ?? 0, hasRanges }
    },

    taken: (workspaceId) => takenBytes(db, normaliseId(workspaceId)),

    async parkedIn(destinationId, { afterSeq, throughSeq, generation }) {
      const rows = await db
        .selectFrom('parked')
        .select(['stream_seq', 'record_index', 'records_count'])
        .where('destination_id', '=', normaliseId(destinationId))
        .where('stream_seq', '>', afterSeq)
        .where('stream_seq', '<=', throughSeq)
        .where('generation', '=', generation)
        .execute()
      return rows.map((row) => ({
        seq: row.stream_seq,
        recordIndex: row.record_index < 0 ? null : row.record_index,
        recordCount: row.records_count,
      }))
    },

    park: (owner, parked) =>
      inWriteTransaction(db, async (trx) => {
        if (await holdLane(trx, owner))
          await insertParked(trx, normaliseId(owner.destinationId), parked, now())
      }),

    nextReplay: (destinationId, throughSeq) =>
      inSnapshot(db, (trx) => nextReplay(trx, normaliseId(destinationId), throughSeq)),

    beginReplay: (owner, parkedId) =>
      inWriteTransaction(db, async (trx) => {
        await holdLane(trx, owner)
        return await numberReplay(trx, normaliseId(owner.destinationId), parkedId, now())
      }),

    replayFailed: (owner, parkedId, cause, { attempts, firstIndex }) =>
      inWriteTransaction(db, async (trx) => {
        await holdLane(trx, owner)
        const row = await find(trx, parkedId)
        if (row === undefined) return
        if (!(await cutParked(trx, row, firstIndex))) return
        await trx
          .updateTable('parked')
          .set({
            ...causeColumns(cause, row.history, now()),
            attempts: row.attempts + attempts,
            is_replaying: 0,
            replay_no: null,
          })
          .where('parked_id', '=', parkedId)
          .execute()
      }),

    replayHalfStored: (owner, parkedId, firstIndex) =>
      inWriteTransaction(db, async (trx) => {
        await holdLane(trx, owner)
        const row = await find(trx, parkedId)
        if (row !== undefined) await cutParked(trx, row, firstIndex)
      }),
  }
}

async function takenBytes(db: Connection, workspaceId: string): ReturnType<ParkedStore['taken']> {
  const sums = await db
    .selectFrom('parked_sums')
    .innerJoin('destinations', 'destinations.destination_id', 'parked_sums.destination_id')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .select(['pipes.workspace_id', 'parked_sums.rows', 'parked_sums.body_bytes'])
    .execute()
  const atPipes = await takenByPipe(db)
  const sumOf = (taken: typeof atPipes) => taken.reduce((sum, one) => sum + one.bytes, 0)
  const bytesOf = (rows: typeof sums) =>
    rows.reduce((sum, row) => sum + row.body_bytes + row.rows * parkedRowBytes, 0)
  const own = sums.filter((row) => row.workspace_id === workspaceId)
  const counted = await db
    .selectFrom('workspaces')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirst()
  const ownPipes = atPipes.filter((one) => one.workspaceId === workspaceId)
  return {
    bytes: bytesOf(sums) + sumOf(atPipes),
    ofWorkspace: bytesOf(own) + sumOf(ownPipes),
    workspaces: counted?.count ?? 0,
  }
}

async function numberReplay(
  trx: Connection,
  destinationId: string,
  parkedId: string,
  nowMs: number,
): Promise<number> {
  const replayNo = await nextReplayNo(trx, destinationId, parkedId, nowMs)
  await trx.updateTable('parked').set({ replay_no: replayNo }).where('parked_id', '=', parkedId).execute()
  return replayNo
}

/** Runs in the transaction that saves the lane's row. */
export async function applyParkedChanges(
  trx: Connection,
  destinationId: string,
  changes: readonly LaneChange[],
  now: () => number,
): Promise<void> {
  for (const change of changes) await applyChange(trx, normaliseId(destinationId), change, now())
}

async function applyChange(
  trx: Connection,
  destinationId: string,
  change: LaneChange,
  nowMs: number,
): Promise<void> {
  switch (change.kind) {
    case 'message': {
      const { parked } = change
      const records = trx
        .selectFrom('parked')
        .select(['parked_id', 'records_count', 'body_bytes'])
        .where('destination_id', '=', destinationId)
        .where('msg_id', '=', parked.msgId)
        .where('record_index', '>=', parked.firstIndex)
        .where('is_edited', '=', 0)
      await removeParked(trx, destinationId, await records.execute())
      await insertParked(trx, destinationId, [parked], nowMs)
      break
    }
    case 'delivered_again': {
      const again = await trx
        .selectFrom('parked')
        .select(['parked_id', 'destination_id', 'records_count', 'body_bytes', 'stream_seq', 'record_index'])
        .where('destination_id', '=', destinationId)
        .where('stream_seq', '>', change.afterSeq)
        .where('stream_seq', '<=', change.throughSeq)
        .where('generation', '<', change.generation)
        .where('is_edited', '=', 0)
        .execute()
      await removeParked(trx, destinationId, again)
      for (const row of again) await recordOutcome(trx, row, 'delivered', nowMs)
      break
    }
    case 'range':
      await saveProgress(trx, change, nowMs)
      break
    case 'replayed': {
      const row = await find(trx, change.parkedId)
      if (row === undefined) break
      await removeParked(trx, destinationId, [row])
      await recordOutcome(trx, row, 'delivered', nowMs)
    }
  }
}

function find(trx: Connection, parkedId: string): Promise<ParkedRow | undefined> {
  return trx.selectFrom('parked').selectAll().where('parked_id', '=', parkedId).executeTakeFirst()
}

async function nextReplay(
  trx: Connection,
  destinationId: string,
  throughSeq: number,
): Promise<Replay | null> {
  const row = (await begunReplay(trx, destinationId)) ?? (await firstReplaying(trx, destinationId))
  if (row === undefined || row.stream_seq > throughSeq) return null
  const { pipe_id } = await trx
    .selectFrom('destinations')
    .select('pipe_id')
    .where('destination_id', '=', destinationId)
    .executeTakeFirstOrThrow()
  const { body } = await bodyOf(trx, row.parked_id)
  return {
    parkedId: row.parked_id,
    replays: row.replays,
    replayNo: row.replay_no,
    firstIndex: row.first_index,
    message: {
      seq: row.stream_seq,
      pipeId: pipe_id,
      msgId: row.msg_id,
      receivedMs: row.received_ms,
      recordCount: row.records_count,
      body: Buffer.from(body, 'utf8'),
    },
  }
}

function firstReplaying(trx: Connection, destinationId: string): Promise<ParkedRow | undefined> {
  return trx
    .selectFrom('parked')
    .selectAll()
    .where('destination_id', '=', destinationId)
    .where('is_replaying', '=', 1)
    .orderBy('stream_seq')
    .orderBy('record_index')
    .limit(1)
    .executeTakeFirst()
}

function begunReplay(trx: Connection, destinationId: string): Promise<ParkedRow | undefined> {
  return trx
    .selectFrom('parked_sums')
    .innerJoin('parked', 'parked.parked_id', 'parked_sums.begun_parked_id')
    .selectAll('parked')
    .where('parked_sums.destination_id', '=', destinationId)
    .where('parked.is_replaying', '=', 1)
    .where('parked.replay_no', 'is not', null)
    .executeTakeFirst()
}
