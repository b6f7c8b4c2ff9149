/** Facts and rules of SQL databases, for either dialect. */
import type { DatabaseSpec, DestinationDescriptor } from '../driver.ts'
import { hasControlCharacters } from '../url-rules.ts'
import { certificateFaults } from './certificates.ts'
import { tableColumnFaults } from './column-faults.ts'
import { identifierFault } from './identifiers.ts'

export const database: DestinationDescriptor<DatabaseSpec> = {
  type: 'destination_database',
  rules(config, stored) {
    const { host, port, database, username, table, dialect } = config
    const faults: [string, string][] = []
    if (!(port >= 1 && port <= 65_535)) faults.push(['port', 'must be a port number from 1 to 65535'])
    if (/[\s/\\@\p{Cc}]/u.test(host)) faults.push(['host', 'must be a host name or an address'])
    for (const [key, text] of Object.entries({ database, username }))
      if (hasControlCharacters(text)) faults.push([key, 'must not contain control characters'])
    const parts = table.split('.')
    if (parts.length > 2) faults.push(['table', 'must be table or schema.table'])
    for (const part of parts) {
      const fault = identifierFault(dialect, part)
      if (fault !== null) faults.push(['table', `must be table or schema.table: a part ${fault}`])
    }
    faults.push(...certificateFaults(config, stored))
    return faults
  },
  columnFaults: (columns, { dialect }) => tableColumnFaults(columns, dialect),
  tableKeys: ['host', 'database', 'table'],
  targets: ({ host, port, database }) => [{ key: 'host', host, port, database }],
  // Drivers stop a statement earlier by themselves.
  attemptLimitMs: () => 60_000,
  requestsPerBatch: () => 1,
  isTransactional: true,
  isExactlyOnce: ({ exactly_once }) => exactly_once,
  secrets: () => [],
  load: async ({ config }) =>
    config.dialect === 'mysql'
      ? (await import('../mysql/driver.ts')).mysql
      : (await import('../postgresql/driver.ts')).postgresql,
}
