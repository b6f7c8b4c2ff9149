/**
 * Writes of parked rows for both of their users: delivery parks and replays (`parked-store.ts`), people list, replay
 * and discard (`parked.ts`). Every change of a row updates the sums of its destination in the same transaction, so the
 * sums always equal a count. The foreign keys' cascade deletes rows and sums with their destination.
 */
import { v7 } from 'uuid'
import { type ParkedDetail, type ParkedError, parkedHistoryEntries } from '../contract/parked.ts'
import { slices } from '../platform/slices.ts'
import type { NewParked, ParkedCause } from './parked-store-port.ts'
import { isoTime, type ParkedRow, type ParkedSumRow } from './tables.ts'
import type { Connection } from './transactions.ts'

/** Keeps a statement below every database's limit of parameters. */
const rowsAtOnce = 25
const idsAtOnce = 500

type Sums = Pick<ParkedSumRow, 'rows' | 'records' | 'body_bytes' | 'dropped_records'>
const noSums = (): Sums => ({ rows: 0, records: 0, body_bytes: 0, dropped_records: 0 })

/** Inserts parked records. A record that is parked already keeps its row. The destination must exist. */
export async function insertParked(
  trx: Connection,
  destinationId: string,
  parked: readonly NewParked[],
  nowMs: number,
): Promise<void> {
  const known = await knownRows(trx, destinationId, parked)
  const added: { row: ParkedRow; body: string }[] = []
  const sums = noSums()
  for (const each of parked) {
    const before = known.get(keyOf(each.msgId, indexOf(each)))
    if (before === undefined) {
      const made = newRow(destinationId, each, nowMs)
      added.push(made)
      addTo(sums, made.row, 1)
      continue
    }
    const after = await parkAgain(trx, before, each, nowMs)
    addTo(sums, before, -1)
    addTo(sums, after, 1)
  }
  for (const some of slices(added, rowsAtOnce)) {
    const rows = some.map(({ row }) => row)
    await trx.insertInto('parked').values(rows).execute()
    const bodies = some.map(({ row, body }) => ({ parked_id: row.parked_id, body }))
    await trx.insertInto('parked_bodies').values(bodies).execute()
  }
  await addToSums(trx, destinationId, sums)
}

/**
 * Removes the rows and returns how many records they held. `areDropped`: they are removed because of their age, and
 * counted as dropped.
 */
export async function removeParked(
  trx: Connection,
  destinationId: string,
  rows: readonly Pick<ParkedRow, 'parked_id' | 'records_count' | 'body_bytes'>[],
  { areDropped = false } = {},
): Promise<number> {
  const sums = noSums()
  for (const row of rows) addTo(sums, row, -1)
  const records = 0 - sums.records
  if (areDropped) sums.dropped_records = records
  const ids = rows.map((row) => row.parked_id)
  for (const some of slices(ids, idsAtOnce))
    await trx.deleteFrom('parked').where('parked_id', 'in', some).execute()
  await addToSums(trx, destinationId, sums)
  return records
}

/** Removes the records before `firstIndex`, which are stored, from the row. False: no record would be left. */
export async function cutParked(trx: Connection, row: ParkedRow, firstIndex: number): Promise<boolean> {
  const storedRecords = firstIndex - row.first_index
  if (storedRecords <= 0) return true
  const { body } = await bodyOf(trx, row.parked_id)
  const left = body.split('\n').slice(storedRecords)
  if (left.length === 0) return false
  await replaceRecords(trx, row, left, firstIndex)
  return true
}

export async function replaceRecords(
  trx: Connection,
  row: ParkedRow,
  recordTexts: readonly string[],
  firstIndex: number,
): Promise<void> {
  await replaceBody(trx, row, { body: recordTexts.join('\n'), recordCount: recordTexts.length, firstIndex })
}

export async function replaceBody(
  trx: Connection,
  row: ParkedRow,
  { body, recordCount, firstIndex }: { body: string; recordCount: number; firstIndex: number },
): Promise<void> {
  const change = {
    records_count: recordCount,
    body_bytes: Buffer.byteLength(body),
    first_index: firstIndex,
  }
  await trx.updateTable('parked_bodies').set({ body }).where('parked_id', '=', row.parked_id).execute()
  await trx.updateTable('parked').set(change).where('parked_id', '=', row.parked_id).execute()
  const sums = noSums()
  addTo(sums, row, -1)
  addTo(sums, change, 1)
  await addToSums(trx, row.destination_id, sums)
}

export async function bodyOf(trx: Connection, parkedId: string): Promise<{ body: string }> {
  return await trx
    .selectFrom('parked_bodies')
    .select('body')
    .where('parked_id', '=', parkedId)
    .executeTakeFirstOrThrow()
}

/** Returns the columns of a cause, with the earlier causes in the history, newest first. */
export function causeColumns(cause: Omit<ParkedCause, 'reason'>, history: string | null, nowMs: number) {
  const { code, message, column, value } = cause
  const entry = { failed_ts: isoTime(nowMs), error: { code, message, column, value } }
  const entries = [entry, ...parsedHistory(history)].slice(0, parkedHistoryEntries)
  return {
    parked_ms: nowMs,
    error_code: code,
    error_message: message,
    error_column: column,
    error_value: value,
    history: JSON.stringify(entries),
  }
}

export function parsedHistory(history: string | null): ParkedDetail['history'] {
  return history === null ? [] : (JSON.parse(history) as { failed_ts: string; error: ParkedError }[])
}

/** -1 is the message as a whole. */
function indexOf({ recordIndex }: NewParked): number {
  return recordIndex ?? -1
}

function keyOf(msgId: string, index: number): string {
  return `${msgId}:${index}`
}

async function knownRows(
  trx: Connection,
  destinationId: string,
  parked: readonly NewParked[],
): Promise<Map<string, ParkedRow>> {
  const known = new Map<string, ParkedRow>()
  const messages = [...new Set(parked.map(({ msgId }) => msgId))]
  for (const some of slices(messages, idsAtOnce)) {
    const rows = await trx
      .selectFrom('parked')
      .selectAll()
      .where('destination_id', '=', destinationId)
      .where('msg_id', 'in', some)
      .execute()
    for (const row of rows) known.set(keyOf(row.msg_id, row.record_index), row)
  }
  return known
}

function newRow(destinationId: string, parked: NewParked, nowMs: number): { row: ParkedRow; body: string } {
  const { reason, msgId, seq, firstIndex, receivedMs, recordCount, body, attempts, generation } = parked
  const row = {
    parked_id: v7(),
    destination_id: destinationId,
    msg_id: msgId,
    stream_seq: seq,
    record_index: indexOf(parked),
    first_index: firstIndex,
    received_ms: receivedMs,
    reason,
    ...causeColumns(parked, null, nowMs),
    attempts,
    records_count: recordCount,
    body_bytes: body.length,
    generation,
    is_edited: 0,
    is_replaying: 0,
    replays: 0,
    replay_no: null,
  } as const
  return { row, body: body.toString('utf8') }
}

/** Records that a user has edited keep the edited text. */
async function parkAgain(
  trx: Connection,
  before: ParkedRow,
  parked: NewParked,
  nowMs: number,
): Promise<Pick<ParkedRow, 'records_count' | 'body_bytes'>> {
  const { reason, attempts, generation, recordCount, firstIndex, body } = parked
  const isSame = before.is_edited === 1 || before.first_index === firstIndex
  const held = isSame
    ? { records_count: before.records_count, body_bytes: before.body_bytes }
    : { records_count: recordCount, body_bytes: body.length, first_index: firstIndex }
  await trx
    .updateTable('parked')
    .set({
      reason,
      ...causeColumns(parked, before.history, nowMs),
      attempts: before.attempts + attempts,
      generation,
      ...held,
    })
    .where('parked_id', '=', before.parked_id)
    .execute()
  if (!isSame) {
    const text = body.toString('utf8')
    await trx
      .updateTable('parked_bodies')
      .set({ body: text })
      .where('parked_id', '=', before.parked_id)
      .execute()
  }
  return held
}

function addTo(
  sums: Sums,
  { records_count, body_bytes }: Pick<ParkedRow, 'records_count' | 'body_bytes'>,
  sign: 1 | -1,
): void {
  sums.rows += sign
  sums.records += sign * records_count
  sums.body_bytes += sign * body_bytes
}

async function addToSums(trx: Connection, destinationId: string, sums: Sums): Promise<void> {
  if (Object.values(sums).every((sum) => sum === 0)) return
  await trx
    .insertInto('parked_sums')
    .values({ destination_id: destinationId, ...sums, last_replay_no: 0, begun_parked_id: null })
    .onConflict((conflict) =>
      conflict.column('destination_id').doUpdateSet((eb) => ({
        rows: eb('parked_sums.rows', '+', sums.rows),
        records: eb('parked_sums.records', '+', sums.records),
        body_bytes: eb('parked_sums.body_bytes', '+', sums.body_bytes),
        dropped_records: eb('parked_sums.dropped_records', '+', sums.dropped_records),
      })),
    )
    .execute()
}

/**
 * Numbers a replay, of this parked row or (null) of a range. The time is a lower bound, so that another copy of this data
 * directory does not use the same number.
 */
export async function nextReplayNo(
  trx: Connection,
  destinationId: string,
  begunParkedId: string | null,
  nowMs: number,
): Promise<number> {
  const sums = await trx
    .selectFrom('parked_sums')
    .select('last_replay_no')
    .where('destination_id', '=', destinationId)
    .executeTakeFirst()
  const last = {
    last_replay_no: Math.max((sums?.last_replay_no ?? 0) + 1, nowMs),
    begun_parked_id: begunParkedId,
  }
  await trx
    .insertInto('parked_sums')
    .values({ destination_id: destinationId, ...noSums(), ...last })
    .onConflict((conflict) => conflict.column('destination_id').doUpdateSet(last))
    .execute()
  return last.last_replay_no
}
