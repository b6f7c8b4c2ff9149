/** Facts and rules of SQL databases, for either dialect. */
import type { ColumnMapping } from '../../contract/destination.ts'
import type { DatabaseSpec, DestinationDescriptor, DestinationSpec } from '../driver.ts'
import { hasControlCharacters } from '../url-rules.ts'
import { certificateFaults } from './certificates.ts'
import { columnKey, identifierFault } from './identifiers.ts'

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
  columnFaults: (columns, { dialect }) => columnFaults(columns, dialect),
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

/** Reports names that the server does not allow or cannot distinguish, and more than one dedupe_id. */
function columnFaults(
  columns: readonly ColumnMapping[],
  dialect: DatabaseSpec['config']['dialect'],
): [path: string, message: string][] {
  const faults: [string, string][] = []
  const seen = new Map<string, number>()
  let dedupeAt: number | null = null
  for (const [index, { column_name, semantic_role }] of columns.entries()) {
    const name = columnKey(dialect, column_name)
    const first = seen.get(name)
    const bad = identifierFault(dialect, column_name)
    if (bad !== null) faults.push([`.${index}.column_name`, bad])
    else if (first !== undefined)
      faults.push([`.${index}.column_name`, `is already mapped by columns.${first}`])
    else seen.set(name, index)
    if (semantic_role !== 'dedupe_id') continue
    if (dedupeAt === null) dedupeAt = index
    else
      faults.push([
        `.${index}.semantic_role`,
        `only one column can have the role dedupe_id; columns.${dedupeAt} has it`,
      ])
  }
  return faults
}

export function isDatabaseSpec<T extends DestinationSpec>(spec: T): spec is T & DatabaseSpec {
  return spec.type === 'destination_database'
}
