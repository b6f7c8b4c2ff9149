/** Records parked at pipes: `Metadata['pipeParked']`. */
import type { PipeParkedRecord, SchemaFault } from '../contract/pipe-parked.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { slices } from '../platform/slices.ts'
import type { Audited } from './audit.ts'
import {
  type AddedMembers,
  type PipeParkedPosition,
  type PipeParkedSelector,
  type PipeParkedStore,
  type PipeParkedText,
  storedPath,
} from './pipe-parked-port.ts'
import { parkRequests, removeRows, replaceText, takenByPipe } from './pipe-parked-rows.ts'
import { isoTime, normaliseId, type PipeParkedRow, type PipeRef } from './tables.ts'
import { type Connection, inSnapshot, inWriteTransaction } from './transactions.ts'

/** Rows per transaction. Other writers, and with SQLite the main thread, wait for each transaction. */
const rowsAtOnce = 200
/** The texts that a replay of many rows holds in memory at once, unless one is larger. */
const bytesAtOnce = resourceLimits.replayStepBytes

export function pipeParked(db: Connection, now: () => number, inAudited: Audited): PipeParkedStore {
  return {
    ...userReads(db),
    ...replayWrites(db, now),
    ...bulkWrites(db, now),

    edit: (pipe, parkedId, changed) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, pipe, parkedId)
        if (row === undefined) return 'not_found'
        if (row.is_replaying === 1) return 'replaying'
        await replaceText(trx, row, changed.text)
        await setFaults(trx, row.parked_id, changed.faults)
        await record({
          workspaceId: pipe.workspaceId,
          operation: 'editPipeParked',
          resourceId: row.pipe_id,
          pipeId: row.pipe_id,
          before: null,
          after: { parked_id: row.parked_id, edits: row.edits + 1 },
        })
        return 'edited'
      }),

    discard: (pipe, parkedId) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, pipe, parkedId)
        if (row === undefined) return 'not_found'
        if (row.is_replaying === 1) return 'replaying'
        await removeRows(trx, row.pipe_id, [row], { nowMs: now() })
        const { parked_id, msg_id, record_index } = row
        await record({
          workspaceId: pipe.workspaceId,
          operation: 'deletePipeParked',
          resourceId: row.pipe_id,
          pipeId: row.pipe_id,
          before: { parked_id, msg_id, record_index },
          after: null,
        })
        return 'discarded'
      }),

    async discardMany(pipe, which) {
      let discarded = 0
      for (;;) {
        const removed = await inWriteTransaction(db, async (trx) => {
          const rows = await selected(removable(trx, pipe), which)
            .where('pipe_parked.is_replaying', '=', 0)
            .limit(rowsAtOnce)
            .execute()
          await removeRows(trx, normaliseId(pipe.pipeId), rows, { nowMs: now() })
          return rows.length
        })
        discarded += removed
        if (removed < rowsAtOnce) return discarded
      }
    },
  }
}

/** The writes without an entry in the audit log of their own. */
function bulkWrites(db: Connection, now: () => number): Pick<PipeParkedStore, 'park' | 'unpark' | 'prune'> {
  return {
    park: (requests, maxBytes) =>
      inWriteTransaction(db, (trx) => parkRequests(trx, requests, maxBytes, now())),

    async unpark(parkedIds) {
      await inWriteTransaction(db, async (trx) => {
        const rows = await trx
          .selectFrom('pipe_parked')
          .select(['parked_id', 'pipe_id', 'msg_id', 'is_keyed', 'record_bytes'])
          .where('parked_id', 'in', [...parkedIds])
          .where('is_keyed', '=', 0)
          .where('is_replaying', '=', 0)
          .where('edits', '=', 0)
          .execute()
        if (rows[0] !== undefined) await removeRows(trx, rows[0].pipe_id, rows, { nowMs: now() })
      })
    },

    async prune(parkedBeforeMs, doneBeforeMs) {
      const dropped = new Map<string, number>()
      while (await pruneSome(db, parkedBeforeMs, now(), dropped));
      while (await pruneMarks(db, doneBeforeMs));
      return dropped
    },
  }
}

function replayWrites(
  db: Connection,
  now: () => number,
): Pick<PipeParkedStore, 'beginReplays' | 'releaseReplays' | 'endReplays' | 'noteFaults'> {
  return {
    beginReplays: (pipe, rows) =>
      inWriteTransaction(db, async (trx) => {
        const begun = new Set<string>()
        if (!(await exists(trx, pipe))) return begun
        for (const { parkedId, edits } of rows) {
          const { numUpdatedRows } = await trx
            .updateTable('pipe_parked')
            .set({ is_replaying: 1 })
            .where('parked_id', '=', parkedId)
            .where('pipe_id', '=', normaliseId(pipe.pipeId))
            .where('edits', '=', edits)
            .executeTakeFirst()
          if (numUpdatedRows > 0n) begun.add(parkedId)
        }
        return begun
      }),

    async releaseReplays(pipe, parkedIds) {
      await inWriteTransaction(db, async (trx) => {
        if (!(await exists(trx, pipe))) return
        for (const some of slices(parkedIds, rowsAtOnce))
          await trx
            .updateTable('pipe_parked')
            .set({ is_replaying: 0 })
            .where('pipe_id', '=', normaliseId(pipe.pipeId))
            .where('parked_id', 'in', some)
            .execute()
      })
    },

    endReplays: (pipe, parkedIds) =>
      inWriteTransaction(db, async (trx) => {
        const rows = await removable(trx, pipe)
          .where('pipe_parked.parked_id', 'in', [...parkedIds])
          .execute()
        await removeRows(trx, normaliseId(pipe.pipeId), rows, { nowMs: now() })
        return rows.length
      }),

    noteFaults: (pipe, parkedId, faults) =>
      inWriteTransaction(db, async (trx) => {
        const row = await one(trx, pipe, parkedId)
        if (row !== undefined) await setFaults(trx, row.parked_id, faults)
      }),
  }
}

function userReads(db: Connection): Pick<PipeParkedStore, 'list' | 'count' | 'counts' | 'get' | 'texts'> {
  return {
    async list(pipe, { limit, after, errorPath }) {
      const rows = await selected(afterPosition(ofPipe(db, pipe), after), { ids: null, errorPath })
        .select(shownColumns)
        .limit(limit + 1)
        .execute()
      const page = rows.slice(0, limit)
      const last = page.at(-1)
      return {
        parked: page.map(shown),
        next: rows.length > limit && last !== undefined ? positionOf(last) : null,
      }
    },

    async count(pipe) {
      const sums = await db
        .selectFrom('pipe_parked_sums')
        .innerJoin('pipes', 'pipes.pipe_id', 'pipe_parked_sums.pipe_id')
        .select('pipe_parked_sums.rows')
        .where('pipes.workspace_id', '=', normaliseId(pipe.workspaceId))
        .where('pipes.pipe_id', '=', normaliseId(pipe.pipeId))
        .executeTakeFirst()
      return sums?.rows ?? 0
    },

    async counts() {
      const taken = await takenByPipe(db)
      return taken.map(({ pipeId, workspaceId, rows }) => ({ pipeId, workspaceId, records: rows }))
    },

    async get(pipe, parkedId) {
      const row = await one(db, pipe, parkedId)
      return row === undefined ? null : { record: shown(row), text: textOf(row) }
    },

    texts: (pipe, which, after) =>
      inSnapshot(db, async (trx) => {
        const rows = await selected(afterPosition(ofPipe(trx, pipe), after), which)
          .select(['pipe_parked.parked_id', 'pipe_parked.record_bytes'])
          .limit(rowsAtOnce)
          .execute()
        let bytes = 0
        const ids = rows
          .filter((row, index) => {
            bytes += row.record_bytes
            return index === 0 || bytes <= bytesAtOnce
          })
          .map((row) => row.parked_id)
        if (ids.length === 0) return []
        const found = await ofPipe(trx, pipe)
          .selectAll('pipe_parked')
          .where('pipe_parked.parked_id', 'in', ids)
          .execute()
        return found.map((row) => ({ ...textOf(row), position: positionOf(row) }))
      }),
  }
}

const shownColumns = [
  'pipe_parked.parked_id',
  'pipe_parked.msg_id',
  'pipe_parked.record_index',
  'pipe_parked.received_ms',
  'pipe_parked.parked_ms',
  'pipe_parked.schema_version',
  'pipe_parked.errors',
  'pipe_parked.is_replaying',
  'pipe_parked.edits',
  'pipe_parked.record_bytes',
] as const

type ShownRow = Pick<
  PipeParkedRow,
  (typeof shownColumns)[number] extends `pipe_parked.${infer Column extends keyof PipeParkedRow}`
    ? Column
    : never
>

function shown(row: ShownRow): PipeParkedRecord {
  return {
    parked_id: row.parked_id,
    msg_id: row.msg_id,
    record_index: row.record_index,
    received_ts: isoTime(row.received_ms),
    parked_ts: isoTime(row.parked_ms),
    reason: 'schema_mismatch',
    state: row.is_replaying === 1 ? 'replaying' : 'parked',
    schema_version: row.schema_version,
    errors: JSON.parse(row.errors) as SchemaFault[],
    is_edited: row.edits > 0,
    record_bytes: row.record_bytes,
  }
}

function textOf(row: PipeParkedRow): PipeParkedText {
  return {
    parkedId: row.parked_id,
    text: row.record,
    enrichment: JSON.parse(row.enrichment) as AddedMembers,
    edits: row.edits,
    isReplaying: row.is_replaying === 1,
  }
}

function positionOf(row: Pick<PipeParkedRow, 'msg_id' | 'record_index'>): PipeParkedPosition {
  return { msgId: row.msg_id, index: row.record_index }
}

/** Selects rows of this pipe, in their order, if it belongs to the workspace. */
function ofPipe(db: Connection, { workspaceId, pipeId }: PipeRef) {
  return db
    .selectFrom('pipe_parked')
    .innerJoin('pipes', 'pipes.pipe_id', 'pipe_parked.pipe_id')
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('pipe_parked.pipe_id', '=', normaliseId(pipeId))
    .orderBy('pipe_parked.msg_id')
    .orderBy('pipe_parked.record_index')
}

type Rows = ReturnType<typeof ofPipe>

function afterPosition(query: Rows, after: PipeParkedPosition | null): Rows {
  if (after === null) return query
  return query
    .where('pipe_parked.msg_id', '>=', after.msgId)
    .where((eb) =>
      eb.or([eb('pipe_parked.msg_id', '>', after.msgId), eb('pipe_parked.record_index', '>', after.index)]),
    )
}

function selected<Query extends { where: Rows['where'] }>(
  query: Query,
  { ids, errorPath }: PipeParkedSelector,
): Query {
  let found: { where: Rows['where'] } = query
  if (ids !== null) found = found.where('pipe_parked.parked_id', 'in', ids.map(normaliseId))
  if (errorPath !== null) found = found.where('pipe_parked.error_path', '=', storedPath(errorPath))
  return found as Query
}

async function exists(trx: Connection, { workspaceId, pipeId }: PipeRef): Promise<boolean> {
  const found = await trx
    .selectFrom('pipes')
    .select('pipe_id')
    .where('workspace_id', '=', normaliseId(workspaceId))
    .where('pipe_id', '=', normaliseId(pipeId))
    .executeTakeFirst()
  return found !== undefined
}

function removable(trx: Connection, pipe: PipeRef) {
  return ofPipe(trx, pipe).select([
    'pipe_parked.parked_id',
    'pipe_parked.msg_id',
    'pipe_parked.is_keyed',
    'pipe_parked.record_bytes',
  ])
}

function one(trx: Connection, pipe: PipeRef, parkedId: string) {
  return ofPipe(trx, pipe)
    .selectAll('pipe_parked')
    .where('pipe_parked.parked_id', '=', normaliseId(parkedId))
    .executeTakeFirst()
}

async function setFaults(trx: Connection, parkedId: string, faults: readonly SchemaFault[]): Promise<void> {
  await trx
    .updateTable('pipe_parked')
    .set({ errors: JSON.stringify(faults), error_path: storedPath(faults[0]?.path ?? '') })
    .where('parked_id', '=', parkedId)
    .execute()
}

/** Removes one batch. True: there may be more to remove. */
async function pruneSome(
  db: Connection,
  beforeMs: number,
  nowMs: number,
  dropped: Map<string, number>,
): Promise<boolean> {
  const old = await inWriteTransaction(db, async (trx) => {
    const rows = await trx
      .selectFrom('pipe_parked')
      .select(['parked_id', 'pipe_id', 'msg_id', 'is_keyed', 'record_bytes'])
      // A record whose replay was interrupted can be in the log or not: it is kept until the replay is finished.
      .where('is_replaying', '=', 0)
      .where('parked_ms', '<', beforeMs)
      .orderBy('parked_ms')
      .limit(rowsAtOnce)
      .execute()
    for (const pipeId of new Set(rows.map((row) => row.pipe_id))) {
      const ofOnePipe = rows.filter((row) => row.pipe_id === pipeId)
      await removeRows(trx, pipeId, ofOnePipe, { nowMs, areDropped: true })
    }
    return rows
  })
  for (const { pipe_id } of old) dropped.set(pipe_id, (dropped.get(pipe_id) ?? 0) + 1)
  return old.length === rowsAtOnce
}

async function pruneMarks(db: Connection, beforeMs: number): Promise<boolean> {
  return await inWriteTransaction(db, async (trx) => {
    const old = await trx
      .selectFrom('pipe_parked_done')
      .select('parked_id')
      .where('done_ms', '<', beforeMs)
      .limit(rowsAtOnce)
      .execute()
    const ids = old.map((row) => row.parked_id)
    if (ids.length > 0) await trx.deleteFrom('pipe_parked_done').where('parked_id', 'in', ids).execute()
    return old.length === rowsAtOnce
  })
}
