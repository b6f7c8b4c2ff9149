/** Parked records as delivery sees them (`ParkedStore`), and what of them is saved with a lane's row. */
import type { ParkedChange, ParkedStore, Replay } from '../delivery/parked.ts'
import { parkedRowBytes } from '../delivery/parked.ts'
import { type Connection, inSnapshot, inWriteTransaction, normaliseId, type ParkedRow } from './database.ts'
import { recordOutcome } from './lane-history.ts'
import {
  bodyOf,
  causeColumns,
  cutParked,
  destinationExists,
  insertParked,
  removeParked,
} from './parked-rows.ts'

export function parkedStore(db: Connection, now: () => number): ParkedStore {
  return {
    async counts(destinationId) {
      const id = normaliseId(destinationId)
      const sums = await db
        .selectFrom('parked_sums')
        .select(['rows', 'dropped_records'])
        .where('destination_id', '=', id)
        .executeTakeFirst()
      const rows = Number(sums?.rows ?? 0)
      const isReplaying = rows > 0 && (await firstReplaying(db, id)) !== undefined
      return { rows, isReplaying, droppedRecords: Number(sums?.dropped_records ?? 0) }
    },

    async taken(workspaceId) {
      const sums = await db
        .selectFrom('parked_sums')
        .innerJoin('destinations', 'destinations.destination_id', 'parked_sums.destination_id')
        .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
        .select(['pipes.workspace_id', 'parked_sums.rows', 'parked_sums.body_bytes'])
        .execute()
      const bytesOf = (rows: typeof sums) =>
        rows.reduce((sum, row) => sum + Number(row.body_bytes) + Number(row.rows) * parkedRowBytes, 0)
      const own = sums.filter((row) => row.workspace_id === normaliseId(workspaceId))
      const counted = await db
        .selectFrom('workspaces')
        .select((eb) => eb.fn.countAll().as('count'))
        .executeTakeFirst()
      return { bytes: bytesOf(sums), ofWorkspace: bytesOf(own), workspaces: Number(counted?.count ?? 0) }
    },

    setAside: (destinationId, parked) =>
      inWriteTransaction(db, async (trx) => {
        if (!(await destinationExists(trx, destinationId))) return
        await insertParked(trx, normaliseId(destinationId), parked, now())
      }),

    nextReplay: (destinationId, throughSeq) =>
      inSnapshot(db, (trx) => nextReplay(trx, normaliseId(destinationId), throughSeq)),

    beginReplay: (destinationId, parkedId) =>
      inWriteTransaction(db, async (trx) => {
        const id = normaliseId(destinationId)
        const sums = await trx
          .selectFrom('parked_sums')
          .select('last_replay_no')
          .where('destination_id', '=', id)
          .executeTakeFirst()
        // Of no other copy of this data directory either.
        const replayNo = Math.max(Number(sums?.last_replay_no ?? 0) + 1, now())
        await trx
          .updateTable('parked_sums')
          .set({ last_replay_no: replayNo, begun_parked_id: parkedId })
          .where('destination_id', '=', id)
          .execute()
        await trx
          .updateTable('parked')
          .set({ replay_no: replayNo })
          .where('parked_id', '=', parkedId)
          .execute()
        return replayNo
      }),

    replayFailed: (parkedId, cause, attempts, storedRecords) =>
      inWriteTransaction(db, async (trx) => {
        const row = await find(trx, parkedId)
        if (row === undefined) return
        if (!(await cutParked(trx, row, storedRecords))) return
        await trx
          .updateTable('parked')
          .set({
            ...causeColumns(cause, row.history, now()),
            attempts: Number(row.attempts) + attempts,
            is_replaying: 0,
            replay_no: null,
          })
          .where('parked_id', '=', parkedId)
          .execute()
      }),

    replayHalfStored: (parkedId, storedRecords) =>
      inWriteTransaction(db, async (trx) => {
        const row = await find(trx, parkedId)
        if (row !== undefined) await cutParked(trx, row, storedRecords)
      }),
  }
}

/** In the transaction that saves the lane's row. */
export async function applyParkedChange(
  trx: Connection,
  givenId: string,
  change: ParkedChange,
  nowMs: number,
): Promise<void> {
  const destinationId = normaliseId(givenId)
  switch (change.kind) {
    case 'passed': {
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
      const again = trx
        .selectFrom('parked')
        .select(['parked_id', 'records_count', 'body_bytes'])
        .where('destination_id', '=', destinationId)
        .where('stream_seq', '>', change.afterSeq)
        .where('stream_seq', '<=', change.throughSeq)
        .where('generation', '<', change.generation)
        .where('is_edited', '=', 0)
      await removeParked(trx, destinationId, await again.execute())
      break
    }
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
  if (row === undefined || Number(row.stream_seq) > throughSeq) return null
  const { pipe_id } = await trx
    .selectFrom('destinations')
    .select('pipe_id')
    .where('destination_id', '=', destinationId)
    .executeTakeFirstOrThrow()
  const { body } = await bodyOf(trx, row.parked_id)
  return {
    parkedId: row.parked_id,
    replays: Number(row.replays),
    replayNo: row.replay_no === null ? null : Number(row.replay_no),
    firstIndex: Number(row.first_index),
    message: {
      seq: Number(row.stream_seq),
      pipeId: pipe_id,
      msgId: row.msg_id,
      receivedMs: Number(row.received_ms),
      recordCount: Number(row.records_count),
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
