/** Parked records for users: list, show, replay, discard (`Metadata['parked']`). */
import type { ParkedError, ParkedRecord } from '../contract/parked.ts'
import { keptTexts } from '../log/erased-body.ts'
import { slices } from '../platform/slices.ts'
import type { Audited } from './audit.ts'
import { recordOutcome } from './lane-history.ts'
import { bodyOf, parsedHistory, removeParked, replaceRecords } from './parked-rows.ts'
import type { Metadata, ParkedPosition, ParkedQuery, ParkedSelector } from './store.ts'
import { type DestinationRef, isoTime, normaliseId, type ParkedRow } from './tables.ts'
import { type Connection, inSnapshot, inWriteTransaction } from './transactions.ts'

/** Rows per transaction. Other writers, and with SQLite the main thread, wait for each transaction. */
const rowsAtOnce = 200
/** The most ids in one statement. */
const idsAtOnce = 500

export function parked(db: Connection, now: () => number, inAudited: Audited): Metadata['parked'] {
  return {
    async list(destination, query) {
      const rows = await pageOf(db, destination, query)
        .select(shownColumns)
        .limit(query.limit + 1)
        .execute()
      const page = rows.slice(0, query.limit)
      const last = page.at(-1)
      const next = rows.length > query.limit && last !== undefined ? positionOf(last) : null
      return { parked: page.map(shown), next }
    },

    get: (destination, parkedId) =>
      inSnapshot(db, async (trx) => {
        const row = await one(trx, destination, parkedId)
        if (row === undefined) return null
        const recordTexts = await textsOf(trx, row.parked_id)
        return { record: shown(row), history: parsedHistory(row.history), recordTexts }
      }),

    replay: (destination, parkedId, recordTexts) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, destination, parkedId)
        if (row === undefined) return { kind: 'not_found' }
        if (row.is_replaying === 1) return { kind: 'replaying' }
        const most = row.records_count
        if (recordTexts !== null && recordTexts.length > most) return { kind: 'too_many', most }
        if (recordTexts !== null) await editRecords(trx, row, recordTexts)
        const replays = row.replays + 1
        await requestReplays(trx, [row])
        await record({
          workspaceId: destination.workspaceId,
          operation: 'replayParked',
          resourceId: row.destination_id,
          pipeId: row.pipe_id,
          before: null,
          after: { parked_id: row.parked_id, replays, edited_records: recordTexts?.length ?? 0 },
        })
        return { kind: 'requested', replays }
      }),

    replayMany: (destination, which) => changeMany(db, destination, which, requestReplays),

    discard: (destination, parkedId) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, destination, parkedId)
        if (row === undefined) return 'not_found'
        if (row.is_replaying === 1) return 'replaying'
        await removeParked(trx, row.destination_id, [row])
        await recordOutcome(trx, row, 'skipped', now())
        const { parked_id, msg_id, reason, error_code } = row
        await record({
          workspaceId: destination.workspaceId,
          operation: 'deleteParked',
          resourceId: row.destination_id,
          pipeId: row.pipe_id,
          before: { parked_id, msg_id, reason, error_code, records_count: row.records_count },
          after: null,
        })
        return 'discarded'
      }),

    discardMany: (destination, which) =>
      changeMany(db, destination, which, async (trx, rows) => {
        await removeParked(trx, normaliseId(destination.destinationId), rows)
        for (const row of rows) await recordOutcome(trx, row, 'skipped', now())
      }),

    async prune(beforeMs) {
      const dropped = new Map<string, number>()
      while (await pruneSome(db, beforeMs, now(), dropped));
      return dropped
    },
  }
}

async function textsOf(trx: Connection, parkedId: string): Promise<string[]> {
  const { body } = await bodyOf(trx, parkedId)
  return keptTexts(Buffer.from(body))
}

async function editRecords(trx: Connection, row: ParkedRow, recordTexts: readonly string[]): Promise<void> {
  await replaceRecords(trx, row, recordTexts, row.first_index)
  await trx.updateTable('parked').set({ is_edited: 1 }).where('parked_id', '=', row.parked_id).execute()
}

async function requestReplays(trx: Connection, rows: readonly ParkedRow[]): Promise<void> {
  const ids = rows.map((row) => row.parked_id)
  for (const some of slices(ids, idsAtOnce))
    await trx
      .updateTable('parked')
      .set((eb) => ({ is_replaying: 1, replays: eb('replays', '+', 1), replay_no: null }))
      .where('parked_id', 'in', some)
      .execute()
}

/** Changes the rows that are not being replayed, in transactions of `rowsAtOnce`. Returns their number. */
async function changeMany(
  db: Connection,
  destination: DestinationRef,
  { ids, errorCode, reason }: ParkedSelector,
  change: (trx: Connection, rows: readonly ParkedRow[]) => Promise<void>,
): Promise<number> {
  let changed = 0
  let after: ParkedPosition | null = null
  for (;;) {
    const rows: ParkedRow[] = await inWriteTransaction(db, async (trx) => {
      let query = pageOf(trx, destination, { after, errorCode, reason })
        .selectAll('parked')
        .where('parked.is_replaying', '=', 0)
        .limit(rowsAtOnce)
      if (ids !== null) query = query.where('parked.parked_id', 'in', ids.map(normaliseId))
      const some = await query.execute()
      await change(trx, some)
      return some
    })
    changed += rows.length
    const last = rows.at(-1)
    if (last === undefined || rows.length < rowsAtOnce) return changed
    after = positionOf(last)
  }
}

const shownColumns = [
  'parked.parked_id',
  'parked.msg_id',
  'parked.record_index',
  'parked.stream_seq',
  'parked.parked_ms',
  'parked.reason',
  'parked.error_code',
  'parked.error_message',
  'parked.error_column',
  'parked.error_value',
  'parked.attempts',
  'parked.is_replaying',
  'parked.replays',
  'parked.records_count',
] as const

type ShownRow = Pick<
  ParkedRow,
  (typeof shownColumns)[number] extends `parked.${infer Column extends keyof ParkedRow}` ? Column : never
>

function shown(row: ShownRow): ParkedRecord {
  const error: ParkedError = {
    code: row.error_code,
    message: row.error_message,
    column: row.error_column,
    value: row.error_value,
  }
  const index = row.record_index
  return {
    parked_id: row.parked_id,
    msg_id: row.msg_id,
    record_index: index < 0 ? null : index,
    stream_seq: row.stream_seq,
    parked_ts: isoTime(row.parked_ms),
    reason: row.reason,
    state: row.is_replaying === 1 ? 'replaying' : 'parked',
    error,
    attempts: row.attempts,
    replays: row.replays,
    records_count: row.records_count,
  }
}

function positionOf(row: Pick<ParkedRow, 'stream_seq' | 'record_index'>): ParkedPosition {
  return { seq: row.stream_seq, index: row.record_index }
}

/** Selects rows of this destination, if it belongs to the workspace. */
function ofDestination(db: Connection, { workspaceId, destinationId }: DestinationRef) {
  return db
    .selectFrom('parked')
    .innerJoin('destinations', 'destinations.destination_id', 'parked.destination_id')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('parked.destination_id', '=', normaliseId(destinationId))
}

function pageOf(
  db: Connection,
  destination: DestinationRef,
  { after, errorCode, reason }: Pick<ParkedQuery, 'after' | 'errorCode' | 'reason'>,
) {
  let query = ofDestination(db, destination).orderBy('parked.stream_seq').orderBy('parked.record_index')
  if (errorCode !== null) query = query.where('parked.error_code', '=', errorCode)
  if (reason !== null) query = query.where('parked.reason', '=', reason)
  if (after === null) return query
  return query
    .where('parked.stream_seq', '>=', after.seq)
    .where((eb) =>
      eb.or([eb('parked.stream_seq', '>', after.seq), eb('parked.record_index', '>', after.index)]),
    )
}

function one(trx: Connection, destination: DestinationRef, parkedId: string) {
  return ofDestination(trx, destination)
    .selectAll('parked')
    .select('pipes.pipe_id')
    .where('parked.parked_id', '=', normaliseId(parkedId))
    .executeTakeFirst()
}

/**
 * Removes one batch, so that other users of the database wait for one batch only. True: there may be more to remove.
 */
async function pruneSome(
  db: Connection,
  beforeMs: number,
  nowMs: number,
  dropped: Map<string, number>,
): Promise<boolean> {
  const removed = await inWriteTransaction(db, async (trx) => {
    const old = await trx
      .selectFrom('parked')
      .select(['parked_id', 'destination_id', 'stream_seq', 'record_index', 'records_count', 'body_bytes'])
      // Records whose replay was requested are kept, however old.
      .where('is_replaying', '=', 0)
      .where('parked_ms', '<', beforeMs)
      .orderBy('parked_ms')
      .limit(rowsAtOnce)
      .execute()
    const counts: [string, number][] = []
    for (const id of new Set(old.map((row) => row.destination_id))) {
      const rows = old.filter((row) => row.destination_id === id)
      counts.push([id, await removeParked(trx, id, rows, { areDropped: true })])
      for (const row of rows) await recordOutcome(trx, row, 'dropped', nowMs)
    }
    return { counts, isFull: old.length === rowsAtOnce }
  })
  for (const [id, records] of removed.counts) dropped.set(id, (dropped.get(id) ?? 0) + records)
  return removed.isFull
}
