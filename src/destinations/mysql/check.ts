/** POST …/destinations/test for MySQL-family databases: connects and inspects the table. Nothing is stored. */
import type { DatabaseSpec, DeliveryError, DestinationCheck, DriverSettings, Sample } from '../driver.ts'
import { usesTls } from '../sql/certificates.ts'
import { sampleBatch, sampleCheck, tableCheck } from '../sql/sample.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { connectMysql, type MysqlConnection } from './connection.ts'
import { mysqlError, serverErrorOf } from './errors.ts'
import { tryMark } from './exactly-once-mark.ts'
import { storeRows } from './insert.ts'
import { rowsOf } from './rows.ts'
import { insertSql, planInsert } from './statement.ts'
import { findColumn, type TableDescription } from './table.ts'
import type { MysqlColumn } from './values.ts'

export async function checkMysql(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  sample: Sample | null = null,
): Promise<DestinationCheck[]> {
  const certificate: DestinationCheck[] = []
  const admit = comparedWithPin(spec, settings, (check) => certificate.push(check))
  let connection: MysqlConnection
  try {
    connection = await connectMysql(spec, settings, admit, signal)
  } catch (error) {
    // The server responded, so the connection worked and the log-in failed.
    const isAnswered = serverErrorOf(error) !== null || certificate.length > 0
    const answered = isAnswered ? [connected(spec.config, settings), ...certificate] : []
    if (certificate.some(({ ok }) => !ok)) return answered
    return [...answered, failed(isAnswered ? 'authenticate' : 'connect', mysqlError(error, 0))]
  }
  const onAbort = () => connection.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  const checks = [connected(spec.config, settings), ...certificate, passed('authenticate', 'Authenticated.')]
  try {
    const table = await connection.describe(spec.config.table)
    checks.push(tableCheck(`${table.database}.${table.name}`, table.columns))
    checks.push(...(await checkPlan(connection, table, spec)))
    if (spec.config.exactly_once) checks.push(await exactlyOnce(connection, table, spec))
    if (sample !== null) checks.push(await insertSample(connection, table, spec, sample))
  } catch (error) {
    checks.push(failed('table', mysqlError(error, 0)))
  } finally {
    signal.removeEventListener('abort', onAbort)
    await connection.close()
  }
  return checks
}

async function checkPlan(
  connection: MysqlConnection,
  table: TableDescription,
  spec: DatabaseSpec,
): Promise<DestinationCheck[]> {
  const checks = [transactions(table)]
  try {
    const plan = planInsert(table, spec.columns, spec.timestampField)
    checks.push(unfilled(table, spec) ?? passed('columns', 'The table has every mapped column.'))
    if (plan.dedupe.length > 0)
      checks.push(passed('dedupe_id', 'The dedupe_id column has a unique key: delivery is an upsert.'))
    const columns = plan.columns.map(({ column }) => column)
    // Preparing checks names and privileges like an execution, and stores nothing.
    await connection.prepare(insertSql(plan, columns, 1))
    checks.push(passed('insert', 'This user has the rights to store rows in the table.'))
    checks.push({
      ...passed('written_by', 'Rows are written by INSERT statements of many rows.'),
      writtenBy: 'insert',
    })
  } catch (error) {
    const failure = mysqlError(error, 0)
    const names: Record<string, string> = { ER_BAD_FIELD_ERROR: 'columns', no_unique_key: 'dedupe_id' }
    checks.push(failed(names[failure.code] ?? 'insert', failure))
  }
  return checks
}

async function exactlyOnce(
  connection: MysqlConnection,
  table: TableDescription,
  spec: DatabaseSpec,
): Promise<DestinationCheck> {
  try {
    return passed('exactly_once', await tryMark(connection, table, spec))
  } catch (error) {
    return failed('exactly_once', mysqlError(error, 0))
  }
}

/** Inserted in the session's open transaction and rolled back. */
async function insertSample(
  connection: MysqlConnection,
  table: TableDescription,
  spec: DatabaseSpec,
  sample: Sample,
): Promise<DestinationCheck> {
  if (!table.isTransactional)
    return {
      name: 'sample',
      ok: false,
      message: 'Nothing was inserted: the table has no transactions, so an insert could not be rolled back.',
    }
  const batch = sampleBatch(sample, spec, (name) => madeUpText(findColumn(table, name)))
  try {
    const plan = planInsert(table, spec.columns, spec.timestampField)
    await storeRows(connection, plan, rowsOf(batch, plan))
    await connection.command('ROLLBACK')
    return sampleCheck(sample, null)
  } catch (error) {
    return sampleCheck(sample, mysqlError(error, 0))
  }
}

function madeUpText(column: MysqlColumn | undefined): string {
  switch (column?.kind) {
    case 'datetime':
      return '2026-01-02T03:04:05Z'
    case 'date':
      return '2026-01-02'
    case 'year':
      return '2026'
    case 'time':
      return '03:04:05'
    case 'integer':
    case 'number':
    case 'float':
    case 'double':
    case 'bit':
      return '1'
    case 'enum':
    case 'set':
      return [...column.members][0] ?? ''
    case 'binary':
      return 'sample'.padEnd(lengthOf(column)).slice(0, lengthOf(column))
    default:
      return 'sample'.slice(0, lengthOf(column))
  }
}

/** Characters or bytes that fit the column, at most those of "sample" if the length is unknown. */
function lengthOf(column: MysqlColumn | undefined): number {
  return Number(/^(?:var)?(?:char|binary)\((\d+)\)/.exec(column?.type ?? '')?.[1] ?? 6)
}

function transactions({ isTransactional }: TableDescription): DestinationCheck {
  return isTransactional
    ? passed('transactions', 'The table stores a batch as a whole or not at all.')
    : {
        name: 'transactions',
        ok: false,
        message:
          'The table has no transactions: after a failure part of a batch can be stored twice. Use InnoDB.',
      }
}

/** Reports columns that require a value and have no mapping: they would reject every row. */
function unfilled(table: TableDescription, { columns }: DatabaseSpec): DestinationCheck | null {
  if (columns.length === 0) return null
  const mapped = new Set(columns.map(({ column_name }) => column_name.toLowerCase()))
  const missing = table.columns.find(
    ({ name, isNotNull, hasDefault, isGenerated }) =>
      isNotNull && !hasDefault && !isGenerated && !mapped.has(name.toLowerCase()),
  )
  if (missing === undefined) return null
  const message = `Column "${missing.name}" is NOT NULL without a default, and has no mapping: add one.`
  return { name: 'columns', ok: false, message }
}

function connected(config: DatabaseSpec['config'], settings: DriverSettings): DestinationCheck {
  return passed('connect', `The server responds${usesTls(config, settings.databaseTls) ? ' over TLS' : ''}.`)
}
function passed(name: string, message: string): DestinationCheck {
  return { name, ok: true, message }
}
function failed(name: string, error: DeliveryError): DestinationCheck {
  return { name, ok: false, message: error.message }
}
