/** POST …/destinations/infer for MySQL-family databases: inspects the table, and creates or extends it on request. */
import type { TableProposal } from '../../contract/table-proposal.ts'
import type { DatabaseSpec, DriverSettings, InferRequest } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { inferTable } from '../sql/infer/infer.ts'
import type { NewColumn } from '../sql/infer/plan.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { connectMysql } from './connection.ts'
import { mysqlError } from './errors.ts'
import { quoteMysqlIdentifier, splitTableName } from './identifiers.ts'

/** Short, because all other clients of the table queue behind an ALTER that waits. */
const lockWaitSeconds = 3

export async function inferMysql(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const { config } = spec
  const table = quotedTable(config)
  return await inferTable(spec, request, {
    errorOf: (error) => mysqlError(error, 0),
    createTable: (columns) => createTableSql(table, columns),
    addColumns: (columns) =>
      `ALTER TABLE ${table}\n${columns.map((one) => `  ADD COLUMN ${columnSql(one)}`).join(',\n')}`,
    async open() {
      const connection = await connectMysql(
        spec,
        settings,
        comparedWithPin(spec, settings, () => {}),
        signal,
      )
      const onAbort = () => connection.destroy()
      signal.addEventListener('abort', onAbort, { once: true })
      const [server] = await connection.select('SELECT VERSION() AS version')
      return {
        isMariadb: /mariadb/i.test(String(server?.version)),
        async columns() {
          try {
            const { columns } = await connection.describe(config.table)
            return columns.map(({ isNullable, ...column }) => ({ ...column, isNotNull: !isNullable }))
          } catch (error) {
            if (error instanceof DeliveryError && error.code === 'ER_NO_SUCH_TABLE') return null
            throw error
          }
        },
        async run(statement) {
          await connection.command(`SET SESSION lock_wait_timeout = ${lockWaitSeconds}`)
          await connection.command(statement)
        },
        async close() {
          signal.removeEventListener('abort', onAbort)
          await connection.close()
        },
      }
    },
  })
}

/** `table` as returned by `quotedTable`. Pure. */
export function createTableSql(table: string, columns: readonly NewColumn[]): string {
  const lines = columns.map((one) => `  ${columnSql(one)}${one.isPrimaryKey ? ' PRIMARY KEY' : ''}`)
  return `CREATE TABLE ${table} (\n${lines.join(',\n')}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`
}

/** The database part is left out for a table in the connection's own database. */
export function quotedTable(config: Pick<DatabaseSpec['config'], 'table' | 'database'>): string {
  const { database, table } = splitTableName(config.table, config.database)
  const name = quoteMysqlIdentifier(table)
  return config.table.includes('.') ? `${quoteMysqlIdentifier(database)}.${name}` : name
}

function columnSql({ name, dataType, isPrimaryKey }: NewColumn): string {
  return `${quoteMysqlIdentifier(name)} ${dataType}${isPrimaryKey ? ' NOT NULL' : ''}`
}
