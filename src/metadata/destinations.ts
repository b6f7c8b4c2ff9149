/**
 * Destinations with their column mappings. A destination, its columns and its lane row are made in one transaction: a
 * lane row is there as long as its destination is. Secret values of the config are sealed on the way in and opened on
 * the way out, each bound to this destination and its key.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { columnsOf, insertColumns } from './columns.ts'
import { openConfig, sealConfig } from './destination-config.ts'
import { requirePipe } from './pipes.ts'
import { type Connection, type DestinationRow, idKey, isoTime, snapshot, write } from './schema.ts'
import type { Sealer } from './secrets.ts'
import type { DestinationChange, Metadata, StoredDestination } from './store.ts'

export function destinations(db: Connection, sealer: Sealer, now: () => number): Metadata['destinations'] {
  return {
    list: (workspaceId, pipeId) => snapshot(db, (trx) => load(trx, sealer, { workspaceId, pipeId })),

    get: (workspaceId, pipeId, destinationId) =>
      snapshot(db, (trx) => loadOne(trx, sealer, { workspaceId, pipeId, destinationId })),

    find: (workspaceId, destinationId) =>
      snapshot(db, (trx) => loadOne(trx, sealer, { workspaceId, destinationId })),

    create: (workspaceId, pipeId, destination) =>
      write(db, async (trx) => {
        const destinationId = randomUUID()
        const ownerId = await requirePipe(trx, workspaceId, pipeId)
        await insertDestination(trx, {
          destination_id: destinationId,
          pipe_id: ownerId,
          destination_type: destination.destination_type,
          destination_status: 'active',
          destination_max_retry_seconds: destination.destination_max_retry_seconds,
          destination_config: sealConfig(
            sealer,
            destinationId,
            destination.destination_type,
            destination.destination_config,
          ),
          destination_created_ms: now(),
          destination_updated_ms: now(),
        })
        await insertColumns(trx, destinationId, destination.columns)
        await insertLane(trx, destinationId, destination.startAfterSeq)
        return required(await loadOne(trx, sealer, { workspaceId, destinationId }))
      }),

    update: (workspaceId, pipeId, destinationId, change) =>
      write(db, async (trx) => {
        const before = await findRow(trx, { workspaceId, pipeId, destinationId })
        if (before === undefined) return null
        await updateDestination(trx, sealer, before, change, now())
        return required(await loadOne(trx, sealer, { workspaceId, destinationId }))
      }),

    delete: (workspaceId, pipeId, destinationId) =>
      write(db, async (trx) => {
        // Columns and lane row go with it by the foreign keys' cascade.
        const result = await trx
          .deleteFrom('destinations')
          .where('destination_id', '=', idKey(destinationId))
          .where('pipe_id', 'in', (eb) =>
            eb
              .selectFrom('pipes')
              .select('pipe_id')
              .where('workspace_id', '=', idKey(workspaceId))
              .where('pipe_id', '=', idKey(pipeId)),
          )
          .executeTakeFirst()
        return result.numDeletedRows > 0n
      }),
  }
}

interface Wanted {
  workspaceId: string
  pipeId?: string
  destinationId?: string
}

function rowsOf(db: Connection, wanted: Wanted) {
  let query = db
    .selectFrom('destinations')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .selectAll('destinations')
    .where('pipes.workspace_id', '=', idKey(wanted.workspaceId))
    .orderBy('destinations.creation_order')
    .orderBy('destinations.destination_id')
  if (wanted.pipeId !== undefined) query = query.where('destinations.pipe_id', '=', idKey(wanted.pipeId))
  if (wanted.destinationId !== undefined) {
    query = query.where('destinations.destination_id', '=', idKey(wanted.destinationId))
  }
  return query
}

async function findRow(db: Connection, wanted: Wanted): Promise<DestinationRow | undefined> {
  return await rowsOf(db, wanted).executeTakeFirst()
}

async function load(trx: Connection, sealer: Sealer, wanted: Wanted): Promise<StoredDestination[]> {
  const rows = await rowsOf(trx, wanted).execute()
  const columns = await columnsOf(
    trx,
    rows.map((row) => row.destination_id),
  )
  return rows.map((row) => ({
    destination_id: row.destination_id,
    pipe_id: row.pipe_id,
    destination_type: row.destination_type,
    destination_status: row.destination_status,
    destination_max_retry_seconds: Number(row.destination_max_retry_seconds),
    destination_config: openConfig(sealer, row),
    columns: columns.get(row.destination_id) ?? [],
    destination_created_ts: isoTime(row.destination_created_ms),
    destination_updated_ts: isoTime(row.destination_updated_ms),
  }))
}

async function loadOne(trx: Connection, sealer: Sealer, wanted: Wanted): Promise<StoredDestination | null> {
  return (await load(trx, sealer, wanted))[0] ?? null
}

async function insertDestination(
  trx: Connection,
  row: Omit<DestinationRow, 'creation_order'>,
): Promise<void> {
  const last = await trx
    .selectFrom('destinations')
    .select((eb) => eb.fn.max('creation_order').as('order'))
    .where('pipe_id', '=', row.pipe_id)
    .executeTakeFirst()
  await trx
    .insertInto('destinations')
    .values({ ...row, creation_order: Number(last?.order ?? 0) + 1 })
    .execute()
}

async function insertLane(trx: Connection, destinationId: string, cursorSeq: number): Promise<void> {
  await trx
    .insertInto('lanes')
    .values({
      destination_id: destinationId,
      cursor_seq: cursorSeq,
      attempts: 0,
      delivered_records: 0,
      skipped_messages: 0,
      dropped_messages: 0,
    })
    .execute()
}

async function updateDestination(
  trx: Connection,
  sealer: Sealer,
  before: DestinationRow,
  change: DestinationChange,
  nowMs: number,
): Promise<void> {
  const values: Partial<DestinationRow> = {}
  if (change.destination_max_retry_seconds !== undefined) {
    values.destination_max_retry_seconds = change.destination_max_retry_seconds
  }
  if (change.destination_status !== undefined) values.destination_status = change.destination_status
  if (change.destination_config !== undefined) {
    values.destination_config = sealConfig(
      sealer,
      before.destination_id,
      before.destination_type,
      change.destination_config,
    )
  }
  if (change.columns !== undefined) {
    await trx.deleteFrom('destination_columns').where('destination_id', '=', before.destination_id).execute()
    await insertColumns(trx, before.destination_id, change.columns)
  }
  if (Object.keys(values).length === 0 && change.columns === undefined) return
  // Later than before also when the clock stood still or went back: clients look at it to see a change.
  const updatedMs = Math.max(nowMs, Number(before.destination_updated_ms) + 1)
  await trx
    .updateTable('destinations')
    .set({ ...values, destination_updated_ms: updatedMs })
    .where('destination_id', '=', before.destination_id)
    .execute()
}

/** What this transaction has just written is there. */
function required(destination: StoredDestination | null): StoredDestination {
  assert.ok(destination !== null)
  return destination
}
