/**
 * A deletion of personal data changes these parts of metadata, apart from its own row: parked records, and texts that can
 * quote a record. Every change is repeatable, so an interrupted deletion does them again.
 *
 *   parked records     of lanes, by their content; records between others leave a tombstone, which keeps indexes
 *   texts              errors of attempts, of replays and of waiting alerts, and excerpts of responses
 *   free space, copies only of a SQLite file: `sqlite/rewrite.ts`, `sqlite/upgrade-copy.ts`
 *
 * The lane's own error and its examples of drift belong to the delivery thread: `Delivery.reread`.
 */
import type { DestinationType } from '../contract/destination.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { slices } from '../platform/slices.ts'
import { erasedText, eraseTexts, quotes } from './erased-texts.ts'
import { recordOutcome } from './lane-history.ts'
import { bodyOf, removeParked, replaceBody } from './parked-rows.ts'
import { removeRows } from './pipe-parked-rows.ts'
import { normaliseId, type ParkedRow } from './tables.ts'
import {
  type Connection,
  type DatabaseFile,
  inWriteTransaction,
  type OpenedDatabase,
} from './transactions.ts'

/** A pipe whose messages can be in the buffer. */
export interface ErasablePipe {
  pipeId: string
  /** Null: the pipe was deleted. */
  name: string | null
  destinations: { destinationId: string; name: string; type: DestinationType; config: string }[]
}

/** A parked row with its records. */
export interface ParkedBody {
  parkedId: string
  pipeId: string
  destinationId: string
  msgId: string
  seq: number
  /** The position in the message of the first record of the body. */
  firstIndex: number
  body: string
}

/** A record that is parked at its pipe. */
export interface PipeParkedText {
  parkedId: string
  pipeId: string
  record: string
  isReplaying: boolean
}

export interface PrivacyErasure {
  /** The pipes of the workspace, or those of the list that belong to it, including deleted ones. */
  erasablePipes(workspaceId: string, pipeIds: readonly string[] | null): Promise<ErasablePipe[]>
  /**
   * Returns the parked rows of the destination after this one, up to `privacyStepBytes` or one row. Null: it was the
   * last one.
   */
  parkedAfter(destinationId: string, parkedId: string): Promise<ParkedBody[] | null>
  /**
   * Replaces the body of a row by one with the same number of lines (`erased-body.ts`), or (null) removes the row. False:
   * the row has changed since it was read, or is gone.
   */
  replaceParked(row: ParkedBody, body: string | null): Promise<boolean>
  /**
   * Returns the records after this one that are parked at the pipe because they do not match its schema, up to
   * `privacyStepBytes` or one record. Null: it was the last one.
   */
  pipeParkedAfter(pipeId: string, parkedId: string): Promise<PipeParkedText[] | null>
  /** Removes a record that is parked at the pipe, unless it has changed. False: it is gone, or has another text. */
  removePipeParked(row: PipeParkedText): Promise<boolean>
  /** Returns those of the destinations whose lane has an error that contains one of the values. */
  quotingLanes(destinationIds: readonly string[], values: readonly string[]): Promise<string[]>
  /**
   * Removes texts of these destinations that can quote records: all of the `affected`, and of the others those that
   * contain one of the values.
   */
  eraseTexts(
    workspaceId: string,
    destinations: { affected: readonly string[]; others: readonly string[] },
    values: readonly string[],
  ): Promise<void>
  /** Null: this database has no file that can be rewritten. */
  readonly file: DatabaseFile | null
}

const idsAtOnce = 200

export function privacyErasure(
  db: Connection,
  now: () => number,
  { file }: Pick<OpenedDatabase, 'file'>,
): PrivacyErasure {
  return {
    file,
    erasablePipes: (workspaceId, pipeIds) => erasablePipes(db, normaliseId(workspaceId), pipeIds),
    parkedAfter: (destinationId, parkedId) => parkedAfter(db, destinationId, parkedId),

    replaceParked: ({ parkedId, body: before }, body) =>
      inWriteTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom('parked')
          .selectAll()
          .where('parked_id', '=', parkedId)
          .executeTakeFirst()
        if (row === undefined || (await bodyOf(trx, parkedId)).body !== before) return false
        if (body === null) {
          await removeParked(trx, row.destination_id, [row])
          await recordOutcome(trx, row, 'skipped', now())
        } else await keepOthers(trx, row, body)
        return true
      }),

    pipeParkedAfter: (pipeId, parkedId) => pipeParkedAfter(db, pipeId, parkedId),

    removePipeParked: ({ parkedId, record }) =>
      inWriteTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom('pipe_parked')
          .selectAll()
          .where('parked_id', '=', parkedId)
          .executeTakeFirst()
        if (row?.record !== record) return false
        await removeRows(trx, row.pipe_id, [row], { nowMs: now() })
        return true
      }),

    async quotingLanes(destinationIds, values) {
      const isQuoting = quotes(values)
      const found: string[] = []
      for (const some of slices(destinationIds, idsAtOnce)) {
        const query = db.selectFrom('lanes').select(['destination_id', 'state'])
        for (const { destination_id, state } of await query.where('destination_id', 'in', some).execute())
          if (isQuoting(state)) found.push(destination_id)
      }
      return found
    },

    eraseTexts: (workspaceId, destinations, values) =>
      eraseTexts(db, normaliseId(workspaceId), destinations, values),
  }
}

/** Its error and history can quote the record that is gone. */
async function keepOthers(trx: Connection, row: ParkedRow, body: string): Promise<void> {
  await replaceBody(trx, row, { body, recordCount: row.records_count, firstIndex: row.first_index })
  await trx
    .updateTable('parked')
    .set({ error_message: erasedText, error_column: null, error_value: null, history: '[]' })
    .where('parked_id', '=', row.parked_id)
    .execute()
}

async function erasablePipes(
  db: Connection,
  workspaceId: string,
  pipeIds: readonly string[] | null,
): Promise<ErasablePipe[]> {
  let query = db
    .selectFrom('pipes')
    .select(['pipe_id', 'pipe_name'])
    .where('workspace_id', '=', workspaceId)
    .orderBy('creation_order')
  if (pipeIds !== null) query = query.where('pipe_id', 'in', pipeIds.map(normaliseId))
  const pipes = await query.execute()
  const found: ErasablePipe[] = []
  for (const some of slices(pipes, idsAtOnce)) {
    const ids = some.map(({ pipe_id }) => pipe_id)
    const destinations = await db
      .selectFrom('destinations')
      .select(['pipe_id', 'destination_id', 'destination_name', 'destination_type', 'destination_config'])
      .where('pipe_id', 'in', ids)
      .orderBy('creation_order')
      .execute()
    for (const { pipe_id, pipe_name } of some) {
      const own = destinations.filter((one) => one.pipe_id === pipe_id)
      found.push({
        pipeId: pipe_id,
        name: pipe_name,
        destinations: own.map((one) => ({
          destinationId: one.destination_id,
          name: one.destination_name,
          type: one.destination_type,
          config: one.destination_config,
        })),
      })
    }
  }
  const wanted = pipeIds === null ? null : new Set(pipeIds.map(normaliseId))
  const ofWorkspace = db.selectFrom('deleted_pipes').select('pipe_id').where('workspace_id', '=', workspaceId)
  const deleted = (await ofWorkspace.execute()).filter(({ pipe_id }) => wanted?.has(pipe_id) ?? true)
  return [...found, ...deleted.map(({ pipe_id }) => ({ pipeId: pipe_id, name: null, destinations: [] }))]
}

/** The first rows, up to `privacyStepBytes` or one row. */
function rowsOfStep<Row>(rows: readonly Row[], bytesOf: (row: Row) => number): Row[] {
  let bytes = 0
  return rows.filter((row, index) => {
    bytes += bytesOf(row)
    return index === 0 || bytes <= resourceLimits.privacyStepBytes
  })
}

async function parkedAfter(
  db: Connection,
  destinationId: string,
  parkedId: string,
): Promise<ParkedBody[] | null> {
  const rows = await db
    .selectFrom('parked')
    .innerJoin('destinations', 'destinations.destination_id', 'parked.destination_id')
    .select([
      'parked.parked_id',
      'parked.msg_id',
      'parked.stream_seq',
      'parked.first_index',
      'parked.body_bytes',
      'destinations.pipe_id',
    ])
    .where('parked.destination_id', '=', destinationId)
    .where('parked.parked_id', '>', parkedId)
    .orderBy('parked.parked_id')
    .limit(idsAtOnce)
    .execute()
  if (rows.length === 0) return null
  const taken = rowsOfStep(rows, (row) => row.body_bytes)
  const ids = taken.map((row) => row.parked_id)
  const bodies = await db.selectFrom('parked_bodies').selectAll().where('parked_id', 'in', ids).execute()
  const texts = new Map(bodies.map(({ parked_id, body }) => [parked_id, body]))
  return taken.map((row) => ({
    parkedId: row.parked_id,
    pipeId: row.pipe_id,
    destinationId,
    msgId: row.msg_id,
    seq: row.stream_seq,
    firstIndex: row.first_index,
    // Missing if the row was removed after the first query.
    body: texts.get(row.parked_id) ?? '',
  }))
}

async function pipeParkedAfter(
  db: Connection,
  pipeId: string,
  parkedId: string,
): Promise<PipeParkedText[] | null> {
  const rows = await db
    .selectFrom('pipe_parked')
    .select(['parked_id', 'record_bytes'])
    .where('pipe_id', '=', pipeId)
    .where('parked_id', '>', parkedId)
    .orderBy('parked_id')
    .limit(idsAtOnce)
    .execute()
  if (rows.length === 0) return null
  const taken = rowsOfStep(rows, (row) => row.record_bytes)
  const texts = await db
    .selectFrom('pipe_parked')
    .select(['parked_id', 'pipe_id', 'record', 'is_replaying'])
    .where(
      'parked_id',
      'in',
      taken.map((row) => row.parked_id),
    )
    .orderBy('parked_id')
    .execute()
  // All of them can have been removed after the first query.
  if (texts.length === 0) return await pipeParkedAfter(db, pipeId, taken.at(-1)!.parked_id)
  return texts.map((row) => ({
    parkedId: row.parked_id,
    pipeId: row.pipe_id,
    record: row.record,
    isReplaying: row.is_replaying === 1,
  }))
}
