/** POST …/destinations/infer for MySQL-family databases: inspects the table, and creates or extends it on request. */
import type { TableProposal } from '../../contract/table-proposal.ts'
import type { DatabaseSpec, DriverSettings, InferRequest } from '../driver.ts'
import { inferTable } from '../sql/infer/infer.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { connectMysql } from './connection.ts'
import { mysqlError } from './errors.ts'
import { quoteMysqlIdentifier, splitTableName } from './identifiers.ts'

/** Short, because all other clients of the table queue behind an ALTER that waits. */
const lockWaitSeconds = 3
/** The shortest that the server allows. */
const automaticLockWaitSeconds = 1

export async function inferMysql(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const { config } = spec
  return await inferTable(spec, request, {
    dialect: 'mysql',
    addsSeveral: true,
    errorOf: (error) => mysqlError(error, 0),
    table: quotedTable(config),
    quote: quoteMysqlIdentifier,
    primaryKey: 'NOT NULL PRIMARY KEY',
    tableOptions: ' ENGINE=InnoDB DEFAULT CHARSET=utf8mb4',
    missingTable: 'ER_NO_SUCH_TABLE',
    async open() {
      const connection = await connectMysql(spec, settings, comparedWithPin(spec, settings), signal)
      const onAbort = () => connection.destroy()
      signal.addEventListener('abort', onAbort, { once: true })
      const [server] = await connection.select('SELECT VERSION() AS version')
      return {
        isMariadb: /mariadb/i.test(String(server?.version)),
        columns: async () => (await connection.describe(config.table)).columns,
        async run(statement, isAutomatic) {
          const seconds = isAutomatic ? automaticLockWaitSeconds : lockWaitSeconds
          await connection.command(`SET SESSION lock_wait_timeout = ${seconds}`)
          // A table that cannot get a column at once would be copied, which takes long and can block its writers.
          await connection.command(isAutomatic ? `${statement}, ALGORITHM=INSTANT` : statement)
        },
        async close() {
          signal.removeEventListener('abort', onAbort)
          await connection.close()
        },
      }
    },
  })
}

/** The database part is left out for a table in the connection's own database. */
function quotedTable(config: Pick<DatabaseSpec['config'], 'table' | 'database'>): string {
  const { database, table } = splitTableName(config.table, config.database)
  const name = quoteMysqlIdentifier(table)
  return config.table.includes('.') ? `${quoteMysqlIdentifier(database)}.${name}` : name
}
