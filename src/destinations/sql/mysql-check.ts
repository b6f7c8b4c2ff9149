/** POST …/destinations/test for MySQL-family databases: connects and looks; nothing is stored. */
import type { DeliveryError, DestinationCheck, DestinationSpec, DriverSettings } from '../driver.ts'
import { usesTls } from './columns.ts'
import { connectMysql, type MysqlConnection } from './mysql-connection.ts'
import { mysqlError, serverErrorOf } from './mysql-errors.ts'
import { insertSql, planInsert } from './mysql-plan.ts'
import type { TableDescription } from './mysql-table.ts'

export async function checkMysql(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<DestinationCheck[]> {
  const host = String(spec.config.host)
  let connection: MysqlConnection
  try {
    connection = await connectMysql(spec, settings, signal)
  } catch (error) {
    // The server answered, so connecting worked: it is the log-in that failed.
    const isAnswered = serverErrorOf(error) !== null
    const failure = failed(isAnswered ? 'authenticate' : 'connect', mysqlError(error, 0))
    return isAnswered ? [connected(host, settings), failure] : [failure]
  }
  const onAbort = () => connection.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  const checks = [connected(host, settings), passed('authenticate', 'The server lets this user in.')]
  try {
    const table = await connection.describe(String(spec.config.table))
    checks.push(passed('table', `${table.database}.${table.name} has ${table.columns.length} columns.`))
    checks.push(...(await checkPlan(connection, table, spec)))
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
  spec: DestinationSpec,
): Promise<DestinationCheck[]> {
  const checks = [transactions(table)]
  try {
    const plan = planInsert(table, spec.columns, spec.timestampField)
    checks.push(unfilled(table, spec) ?? passed('columns', 'The table has every column that is asked for.'))
    if (plan.dedupe.length > 0)
      checks.push(
        passed('dedupe_id', 'The dedupe_id column has a unique key of its own: delivery is an upsert.'),
      )
    const columns = plan.columns.map(({ column }) => column)
    // Preparing checks names and rights as executing would, and stores nothing.
    await connection.prepare(insertSql(plan, columns, 1))
    checks.push(passed('insert', 'This user may store rows in the table.'))
  } catch (error) {
    const failure = mysqlError(error, 0)
    const names: Record<string, string> = { ER_BAD_FIELD_ERROR: 'columns', no_unique_key: 'dedupe_id' }
    checks.push(failed(names[failure.code] ?? 'insert', failure))
  }
  return checks
}

function transactions({ isTransactional }: TableDescription): DestinationCheck {
  return isTransactional
    ? passed('transactions', 'The table takes a batch as a whole or not at all.')
    : {
        name: 'transactions',
        ok: false,
        message:
          'The table has no transactions: after a failure part of a batch can be stored twice. Use InnoDB.',
      }
}

/** A column that must have a value and gets none from the mappings would refuse every row. */
function unfilled(table: TableDescription, { columns }: DestinationSpec): DestinationCheck | null {
  if (columns.length === 0) return null
  const mapped = new Set(columns.map(({ column_name }) => column_name.toLowerCase()))
  const missing = table.columns.find(
    ({ name, hasDefault, isGenerated }) => !hasDefault && !isGenerated && !mapped.has(name.toLowerCase()),
  )
  if (missing === undefined) return null
  const message = `Column "${missing.name}" is NOT NULL without a default, and no mapping fills it.`
  return { name: 'columns', ok: false, message }
}

function connected(host: string, settings: DriverSettings): DestinationCheck {
  return passed('connect', `The server answers${usesTls(host, settings.databaseTls) ? ' over TLS' : ''}.`)
}
function passed(name: string, message: string): DestinationCheck {
  return { name, ok: true, message }
}
function failed(name: string, error: DeliveryError): DestinationCheck {
  return { name, ok: false, message: error.message }
}
