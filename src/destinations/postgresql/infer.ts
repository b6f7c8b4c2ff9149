/** POST …/destinations/infer for PostgreSQL: inspects the table, and creates or extends it on request. */
import type { TableProposal } from '../../contract/table-proposal.ts'
import type { DatabaseSpec, DriverSettings, InferRequest } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { inferTable } from '../sql/infer/infer.ts'
import type { NewColumn } from '../sql/infer/plan.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { openSession } from './connection.ts'
import { postgresError } from './errors.ts'
import { quotePostgresIdentifier, quotePostgresTable } from './identifiers.ts'
import { readTable } from './table.ts'

/** Short, because all other clients of the table queue behind an ALTER that waits. */
const lockTimeoutMs = 3_000

export async function inferPostgres(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const { table } = spec.config
  return await inferTable(spec, request, {
    errorOf: postgresError,
    createTable: (columns) => createTableSql(table, columns),
    addColumns: (columns) =>
      `ALTER TABLE ${quotePostgresTable(table)}\n${columns.map((one) => `  ADD COLUMN ${columnSql(one)}`).join(',\n')}`,
    async open() {
      const session = await openSession(
        spec.config,
        settings,
        comparedWithPin(spec, settings, () => {}),
        signal,
      )
      return {
        isMariadb: false,
        async columns() {
          try {
            return (await readTable(session, table, signal)).columns
          } catch (error) {
            if (error instanceof DeliveryError && error.code === '42P01') return null
            throw error
          }
        },
        async run(statement) {
          await session.run(signal, `SET lock_timeout = ${lockTimeoutMs}`)
          await session.run(signal, statement)
        },
        close: async () => session.destroy(),
      }
    },
  })
}

/** Pure. */
export function createTableSql(table: string, columns: readonly NewColumn[]): string {
  const lines = columns.map((one) => `  ${columnSql(one)}${one.isPrimaryKey ? ' PRIMARY KEY' : ''}`)
  return `CREATE TABLE ${quotePostgresTable(table)} (\n${lines.join(',\n')}\n)`
}

function columnSql({ name, dataType }: NewColumn): string {
  return `${quotePostgresIdentifier(name)} ${dataType}`
}
