/** POST …/destinations/infer for PostgreSQL: inspects the table, and creates or extends it on request. */
import type { TableProposal } from '../../contract/table-proposal.ts'
import type { DatabaseSpec, DriverSettings, InferRequest } from '../driver.ts'
import { inferTable } from '../sql/infer/infer.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { openSession } from './connection.ts'
import { postgresError } from './errors.ts'
import { quotePostgresIdentifier, quotePostgresTable } from './identifiers.ts'
import { readTable } from './table.ts'

/** Short, because all other clients of the table queue behind an ALTER that waits. */
const lockTimeoutMs = 3_000
/** No person waits for the result, so other clients of the table are delayed less, and the statement is repeated later. */
const automaticLockTimeoutMs = 500

export async function inferPostgres(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const { table } = spec.config
  return await inferTable(spec, request, {
    dialect: 'postgresql',
    addsSeveral: true,
    errorOf: postgresError,
    table: quotePostgresTable(table),
    quote: quotePostgresIdentifier,
    primaryKey: 'PRIMARY KEY',
    tableOptions: '',
    missingTable: '42P01',
    async open() {
      const session = await openSession(spec.config, settings, comparedWithPin(spec, settings), signal)
      return {
        isMariadb: false,
        columns: async () => (await readTable(session, table, signal)).columns,
        async run(statement, isAutomatic) {
          const limitMs = isAutomatic ? automaticLockTimeoutMs : lockTimeoutMs
          await session.run(signal, `SET lock_timeout = ${limitMs}`)
          await session.run(signal, statement)
        },
        close: async () => session.destroy(),
      }
    },
  })
}
