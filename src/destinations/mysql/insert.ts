/**
 * Stores rows in one transaction, and finds the row at fault when the server rejects some.
 *
 *   rows ──cut──▶ statements of 250, 64, 8 or 1 rows ──all accepted──▶ the caller's COMMIT
 *                     │ rejected, or accepted with changed values
 *                     ▼
 *                 ROLLBACK, again with a savepoint before each statement; a rejected one is split into the next smaller
 *                 size until one row is isolated
 *                     ├─ the lane does not park ─▶ ROLLBACK ──▶ permanent error naming the row's record
 *                     └─ it does ─▶ continue with the next row, until all others are stored ──▶ the caller's COMMIT
 *
 * Rows are converted a portion at a time: the next one while the server stores the last one.
 *
 * There are only a few sizes, because every statement text is prepared once and then only executed. Rows before the failing one
 * are present while it is tried, so that a collision within the batch is found where it happens.
 */
import { DeliveryError, type RejectedRecord } from '../driver.ts'
import { rejectionOf } from '../park.ts'
import type { MysqlConnection } from './connection.ts'
import { isRecordFault, mysqlError, serverErrorOf } from './errors.ts'
import { bytesOf, namedValue, placeOf, type Row } from './rows.ts'
import { type InsertPlan, insertSql } from './statement.ts'

const statementRows = [250, 64, 8, 1] as const

/** The search for all bad rows stops after this long and leaves the bisecting to the lane, well before its watchdog. */
const searchMs = 20_000
/** After this many rejected rows, none accepted, with an error that is not known to concern rows, the table is at fault. */
const enoughUnclear = 8
const maxPlaceholders = 65_535
/** No statement needs to be larger, and its packet is one block of memory. */
const maxStatementBytes = 8 * 1024 * 1024

/**
 * Leaves the transaction open, for the caller to commit. Rejects with the server's or the connection's error, or with
 * a DeliveryError that names a record.
 */
export async function storeRows(
  connection: MysqlConnection,
  plan: InsertPlan,
  source: Iterator<Row>,
): Promise<void> {
  const fitting = fittingRows(connection, source, (row) => {
    throw tooLarge(connection, plan, row)
  })
  const rows: Row[] = []
  try {
    await insertAll(connection, plan, fitting, rows)
  } catch (error) {
    if (!isRowsFault(error)) throw error
    await connection.command('ROLLBACK')
    const failing = await firstFailingRow(connection, plan, rows)
    await connection.command('ROLLBACK')
    if (failing) throw naming(plan, failing, failing.row !== rows[0])
    // The conflicting rows of another client are gone: the whole batch can be retried.
    throw new DeliveryError(
      'transient',
      'not_reproduced',
      `${asDelivery(error).message} The error did not occur again.`,
    )
  }
}

/**
 * Stores the rows that the server accepts and returns the ones that it rejects permanently. `begin` runs what precedes the rows
 * in their transaction again after a rollback; if it returns false, `moved` is returned. Rejects permanently when no row is
 * accepted and nothing shows that the rows are at fault, and when the search takes too long.
 */
export async function storeOtherRows(
  connection: MysqlConnection,
  plan: InsertPlan,
  source: Iterator<Row>,
  begin: () => Promise<boolean>,
): Promise<RejectedRecord[] | 'moved'> {
  const oversized: RejectedRecord[] = []
  const fitting = fittingRows(connection, source, (row) => {
    oversized.push(rejectionOfRow(plan, row, tooLarge(connection, plan, row)))
  })
  const rows: Row[] = []
  try {
    await insertAll(connection, plan, fitting, rows)
    return oversized
  } catch (error) {
    if (!isRowsFault(error)) throw error
    await connection.command('ROLLBACK')
    if (!(await begin())) return 'moved'
    take(fitting, Number.POSITIVE_INFINITY, rows)
    const refused = await insertOthers(connection, plan, rows)
    return [...oversized, ...refused.map(({ row, error }) => rejectionOfRow(plan, row, asDelivery(error)))]
  }
}

async function insertOthers(
  connection: MysqlConnection,
  plan: InsertPlan,
  rows: readonly Row[],
): Promise<FailingRow[]> {
  const giveUpMs = performance.now() + searchMs
  const refused: FailingRow[] = []
  for await (const failing of failingRows(connection, plan, rows)) {
    refused.push(failing)
    // The records before the failing one could be sent in a batch of their own.
    if (performance.now() >= giveUpMs) throw naming(plan, failing, true)
    const isNoneTaken = rows[refused.length - 1] === failing.row
    const isUnclear = isNoneTaken && asDelivery(failing.error).fault !== 'records'
    if (isUnclear && (refused.length === rows.length || refused.length >= enoughUnclear)) {
      throw naming(plan, refused[0]!, false)
    }
  }
  return refused
}

function isRowsFault(error: unknown): boolean {
  return isRecordFault(error) || error instanceof ChangedValueError
}

/** The server accepted the row but stored another value: a warning where strict mode raises no error. */
class ChangedValueError extends Error {
  readonly code = 'WARN_DATA_TRUNCATED'
}

async function run(connection: MysqlConnection, plan: InsertPlan, rows: readonly Row[]): Promise<void> {
  const values: (string | null)[] = []
  for (const row of rows) for (const value of row.values) values.push(value)
  const warnings = await connection.execute(insertSqlOf(plan, rows), values)
  if (warnings === 0) return
  const listed = await connection.warnings()
  const changed = listed.find(({ errno }) => changesData.has(errno))
  if (changed) throw new ChangedValueError(changed.message)
  // A statement of fewer rows has fewer warnings.
  if (listed.length < warnings)
    throw new ChangedValueError(
      `The server has ${warnings} warnings and lists ${listed.length} of them, so that a changed value could be missed: raise max_error_count.`,
    )
}

/** Adds the rows to `rows` as they are drawn. After an error, the source may have more. */
async function insertAll(
  connection: MysqlConnection,
  plan: InsertPlan,
  source: Iterator<Row>,
  rows: Row[],
): Promise<void> {
  let inserted = Promise.resolve()
  for (;;) {
    const start = rows.length
    try {
      take(source, statementRows[0], rows)
    } finally {
      // An error of an earlier row comes first.
      await inserted
    }
    if (rows.length === start) return
    inserted = insertPortion(connection, plan, rows.slice(start))
    // It is awaited after the next portion has been converted.
    inserted.catch(() => {})
  }
}

async function insertPortion(
  connection: MysqlConnection,
  plan: InsertPlan,
  rows: readonly Row[],
): Promise<void> {
  for (const statement of cut(connection, plan, rows, 0)) await run(connection, plan, statement)
}

/** Draws rows from the source, which is continued later. */
function take(source: Iterator<Row>, atMost: number, rows: Row[]): void {
  for (let count = 0; count < atMost; count++) {
    const next = source.next()
    if (next.done) return
    rows.push(next.value)
  }
}

function* fittingRows(
  connection: MysqlConnection,
  source: Iterator<Row>,
  onTooLarge: (row: Row) => void,
): Generator<Row> {
  const room = roomIn(connection)
  for (let next = source.next(); !next.done; next = source.next()) {
    if (next.value.bytes > room && bytesOf(next.value) > room) onTooLarge(next.value)
    else yield next.value
  }
}

interface FailingRow {
  row: Row
  error: unknown
}

async function firstFailingRow(
  connection: MysqlConnection,
  plan: InsertPlan,
  rows: readonly Row[],
): Promise<FailingRow | null> {
  for await (const failing of failingRows(connection, plan, rows)) return failing
  return null
}

/** Yields the failing rows one after the other; the rows between them are inserted. */
async function* failingRows(
  connection: MysqlConnection,
  plan: InsertPlan,
  rows: readonly Row[],
  sizeFrom = 0,
): AsyncGenerator<FailingRow> {
  for (const statement of cut(connection, plan, rows, sizeFrom)) {
    await connection.command('SAVEPOINT before_statement')
    try {
      await run(connection, plan, statement)
      continue
    } catch (error) {
      if (!isRowsFault(error)) throw error
      await connection.command('ROLLBACK TO SAVEPOINT before_statement')
      const [first] = statement
      if (statement.length === 1 && first) {
        yield { row: first, error }
        continue
      }
    }
    const smaller = statementRows.findIndex((size) => size < statement.length)
    yield* failingRows(connection, plan, statement, smaller)
  }
}

/** Splits rows into runs of one shape, in order, each of a fixed size and below the packet limit. */
function* cut(
  connection: MysqlConnection,
  plan: InsertPlan,
  rows: readonly Row[],
  sizeFrom: number,
): Generator<readonly Row[]> {
  const limit = Math.min(maxStatementBytes, roomIn(connection))
  for (let start = 0; start < rows.length; ) {
    const fitting = runLength(rows, start, limit)
    const perRow = Math.max(1, rows[start]!.columns.length)
    const size =
      statementRows
        .slice(sizeFrom)
        .find(
          (count) =>
            count <= fitting &&
            count * perRow <= maxPlaceholders &&
            (count === 1 || insertSqlOf(plan, rows.slice(start, start + count)).length <= limit),
        ) ?? 1
    yield rows.slice(start, start + size)
    start += size
  }
}

/** Number of rows from `start` on that have one shape and fit into one packet; at least 1. */
function runLength(rows: readonly Row[], start: number, limit: number): number {
  const { columns } = rows[start]!
  let bytes = 0
  let end = start
  while (end < rows.length && end - start < statementRows[0] && rows[end]!.columns === columns) {
    bytes += rows[end]!.bytes
    if (bytes > limit) break
    end++
  }
  return Math.max(1, end - start)
}

/** Detected before sending: the server would drop the connection. */
function tooLarge(connection: MysqlConnection, { table }: InsertPlan, row: Row): DeliveryError {
  return new DeliveryError(
    'permanent',
    'ER_NET_PACKET_TOO_LARGE',
    `The record needs ${bytesOf(row)} bytes for ${table.name}, more than the server's max_allowed_packet of ${connection.maxPacketBytes}: raise it there, or skip the message (${placeOf(row)}).`,
    { failedSeq: row.seq, fault: 'records' },
  )
}

/** Reserves room for the packet header, the statement's id and flags. */
function roomIn({ maxPacketBytes }: MysqlConnection): number {
  return maxPacketBytes - 64
}

/** Cached per plan: building the text for 250 rows costs as much as sending it. */
const texts = new WeakMap<readonly unknown[], Map<number, string>>()
function insertSqlOf(plan: InsertPlan, rows: readonly Row[]): string {
  const { columns } = rows[0]!
  const known = texts.get(columns) ?? new Map<number, string>()
  texts.set(columns, known)
  const sql = known.get(rows.length) ?? insertSql(plan, columns, rows.length)
  known.set(rows.length, sql)
  return sql
}

/** Warnings that the stored value differs from the sent one. Others (deprecations, replication) are harmless. */
const changesData: ReadonlySet<number> = new Set([
  1048, // ER_BAD_NULL_ERROR: NULL replaced
  1263, // ER_WARN_NULL_TO_NOTNULL
  1264, // ER_WARN_DATA_OUT_OF_RANGE
  1265, // WARN_DATA_TRUNCATED: digits or trailing spaces lost
  1292, // ER_TRUNCATED_WRONG_VALUE
  1300, // ER_INVALID_CHARACTER_STRING
  1364, // ER_NO_DEFAULT_FOR_FIELD
  1365, // ER_DIVISION_BY_ZERO
  1366, // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
  1406, // ER_DATA_TOO_LONG
  1411, // ER_WRONG_VALUE_FOR_TYPE
  1916, // MariaDB: ER_DATA_OVERFLOW
  1918, // MariaDB: ER_BAD_DATA
])

/** `takesOthers`: the row is at fault whatever the error's code, since the table accepted other rows. */
function naming(plan: InsertPlan, { row, error }: FailingRow, takesOthers: boolean): DeliveryError {
  const known = asDelivery(error)
  const isOfRow = takesOthers || known.fault === 'records'
  return new DeliveryError('permanent', known.code, `${known.message} (${placeOf(row)})`, {
    failedSeq: row.seq,
    fault: isOfRow ? 'records' : 'destination',
    ...(isOfRow ? { rejected: rejectionOfRow(plan, row, known) } : {}),
    cause: error,
  })
}

function rejectionOfRow({ table }: InsertPlan, row: Row, error: Rejection): RejectedRecord {
  const { seq, index: recordIndex } = row
  return rejectionOf(error, { seq, recordIndex, ...namedValue(error.message, row, table) })
}

type Rejection = Pick<DeliveryError, 'code' | 'message' | 'fault'>

function asDelivery(error: unknown): Rejection {
  if (!(error instanceof ChangedValueError)) return mysqlError(error, 0)
  const message = `The server would have stored a different value than was sent: ${error.message}.`
  return { code: serverErrorOf(error)?.code ?? error.code, message, fault: 'records' }
}
