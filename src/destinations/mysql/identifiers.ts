/** Names in MySQL's SQL. Every identifier in a statement goes through `quoteMysqlIdentifier`. */
import { DeliveryError } from '../driver.ts'
import { identifierFault } from '../sql/identifiers.ts'

/** `name` in backticks. Throws a permanent `ER_WRONG_NAME` for a name that the server does not allow. */
export function quoteMysqlIdentifier(name: string): string {
  const fault = identifierFault('mysql', name)
  if (fault) throw new DeliveryError('permanent', 'ER_WRONG_NAME', `The name "${name}" ${fault}.`)
  return `\`${name.replaceAll('`', '``')}\``
}

/** Splits `table` or `database.table`. Without a database part, the connection's own database applies. */
export function splitTableName(table: string, database: string): { database: string; table: string } {
  const parts = table.split('.')
  if (parts.length === 1) return { database, table }
  const [first = '', second = ''] = parts
  if (parts.length === 2) return { database: first, table: second }
  throw new DeliveryError(
    'permanent',
    'ER_WRONG_TABLE_NAME',
    `"${table}" is not a table's name: it must be table or database.table.`,
  )
}
