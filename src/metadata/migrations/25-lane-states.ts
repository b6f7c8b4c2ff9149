/**
 * Migration 25: a lane's state is one column of JSON text with a checksum over all of it (`lane-row.ts`), where it was a column for
 * each field with a checksum over some. A row whose checksum is wrong has a wrong one afterwards.
 *
 * In a cluster, nodes of the version before may be saving lanes. The rename waits for what they have under way and is read afterwards,
 * so nothing that they saved is lost; what they save later fails, since the table has other columns.
 */
import { crc32 } from 'node:zlib'
import { sql, type Transaction } from 'kysely'
import type { LaneRow, Tables } from '../database.ts'

type Columns = Record<string, unknown>

/** Statements have a limit of parameters. */
const rowsAtOnce = 500

export async function laneStates(trx: Transaction<Tables>): Promise<void> {
  await trx.schema.alterTable('lanes').renameTo('lanes_24').execute()
  const { rows: before } = await sql<Columns>`SELECT * FROM lanes_24`.execute(trx)
  await trx.schema.dropTable('lanes_24').execute()
  await trx.schema
    .createTable('lanes')
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('owner_epoch', 'bigint', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('row_check', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('lanes_key', ['destination_id'])
    .addForeignKeyConstraint(
      'lanes_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
  const rows = before.map(laneRowOfColumns)
  for (let first = 0; first < rows.length; first += rowsAtOnce)
    await trx
      .insertInto('lanes')
      .values(rows.slice(first, first + rowsAtOnce))
      .execute()
}

/** The row of a format before 25 as one of format 25. A file of an earlier format has fewer columns. */
export function laneRowOfColumns(columns: Columns): LaneRow {
  const error = (columns.error_class ?? null) === null ? null : lastErrorOf(columns)
  const fields = { ...fieldsOf(columns), ...(error === null ? {} : { lastError: error }) }
  const row = {
    destination_id: String(columns.destination_id),
    owner_epoch: Number(columns.owner_epoch ?? 0),
    state: JSON.stringify(fields),
  }
  const check = crc32(`${row.destination_id}\n${row.owner_epoch}\n${row.state}`)
  return { ...row, row_check: isIntact(columns) ? check : (check + 1) % 2 ** 32 }
}

const fieldNames: Record<string, string> = {
  cursor_seq: 'cursorSeq',
  cursor_mark: 'cursorMark',
  batch_first_seq: 'batchFirstSeq',
  batch_last_seq: 'batchLastSeq',
  bisect_last_seq: 'bisectLastSeq',
  next_first_seq: 'nextFirstSeq',
  next_last_seq: 'nextLastSeq',
  generation: 'generation',
  record_offset: 'recordOffset',
  size_limit_records: 'sizeLimitRecords',
  size_successes: 'sizeSuccesses',
  attempts: 'attempts',
  first_failed_ms: 'firstFailedMs',
  next_attempt_ms: 'nextAttemptMs',
  blocking_msg_id: 'blockingMsgId',
  last_delivered_ms: 'lastDeliveredMs',
  delivered_records: 'deliveredRecords',
  filtered_records: 'filteredRecords',
  skipped_messages: 'skippedMessages',
  dropped_messages: 'droppedMessages',
  lease_msg_id: 'leaseMsgId',
  lease_until_ms: 'leaseUntilMs',
}
const textColumns = new Set(['cursor_mark', 'blocking_msg_id', 'lease_msg_id'])

function fieldsOf(columns: Columns): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  for (const [column, name] of Object.entries(fieldNames)) {
    const value = columns[column] ?? null
    if (value !== null) fields[name] = textColumns.has(column) ? value : Number(value)
  }
  return fields
}

function lastErrorOf(columns: Columns): Record<string, unknown> {
  const index = columns.error_record_index ?? null
  return {
    class: columns.error_class,
    code: columns.error_code ?? '',
    message: columns.error_message ?? '',
    fault: columns.error_fault ?? null,
    recordIndex: index === null ? null : Number(index),
    column: columns.error_column ?? null,
    value: columns.error_value ?? null,
  }
}

/** A row without a checksum is of a format before 3: nothing is known against it. */
function isIntact(columns: Columns): boolean {
  const check = columns.row_check ?? null
  return check === null || Number(check) === checkOfColumns(columns)
}

const checkedColumns = [
  ...['destination_id', 'cursor_seq', 'cursor_mark', 'batch_first_seq', 'batch_last_seq', 'bisect_last_seq'],
  ...['record_offset', 'lease_msg_id', 'owner_epoch'],
]
/** They count where they hold something: a row from before them keeps its checksum. */
const laterColumns = ['next_first_seq', 'next_last_seq', 'generation']

/** The checksum of a row of formats 3 to 24. */
export function checkOfColumns(columns: Columns): number {
  const checked = checkedColumns.map((column) => columns[column] ?? '')
  const later = laterColumns.map((column) => Number(columns[column] ?? 0) || '')
  while (later.at(-1) === '') later.pop()
  return crc32([...checked, ...later].join('\n'))
}
