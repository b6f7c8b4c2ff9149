/** Facts and rules of SQLite files. */
import type { DestinationDescriptor, SqliteSpec } from '../driver.ts'
import { tableColumnFaults } from '../sql/column-faults.ts'
import { markTableName } from '../sql/exactly-once-mark.ts'
import { identifierFault } from '../sql/identifiers.ts'

export const sqlite: DestinationDescriptor<SqliteSpec> = {
  type: 'destination_sqlite',
  rules({ table }) {
    const fault = identifierFault('sqlite', table)
    if (fault !== null) return [['table', fault]]
    const name = table.toLowerCase()
    // SQLite keeps its schema, and pipectl the positions of lanes, in tables with these names.
    if (name.startsWith('sqlite_')) return [['table', 'must not begin with sqlite_']]
    return name === markTableName ? [['table', `must not be ${markTableName}`]] : []
  },
  columnFaults: (columns) => tableColumnFaults(columns, 'sqlite'),
  tableKeys: ['file', 'table'],
  unavailable: ({ tables = null }) =>
    tables !== null
      ? null
      : [
          'file',
          'is a file of one machine, and this service is a cluster, whose nodes deliver in turn: use a database server',
        ],
  targets: () => [],
  attemptLimitMs: () => 60_000,
  requestsPerBatch: () => 1,
  // Batches are stored one at a time in one thread: another one would only take memory.
  readsAhead: () => false,
  isTransactional: true,
  isExactlyOnce: ({ exactly_once }) => exactly_once,
  secrets: () => [],
  load: async () => (await import('./driver.ts')).sqlite,
}
