/** Names in MySQL's SQL. Every identifier that gets into a statement goes through `quoteMysqlIdentifier`. */
import { DeliveryError } from '../driver.ts'

/** `name` in backticks. Refuses what the server cannot hold: NUL, more than 64 characters, a trailing space, nothing. */
export function quoteMysqlIdentifier(name: string): string {
  const fault = identifierFault(name)
  if (fault) throw new DeliveryError('permanent', 'ER_WRONG_NAME', `The name "${name}" ${fault}.`)
  return `\`${name.replaceAll('`', '``')}\``
}

/** `table` or `database.table`. Without a database part the connection's own is meant. */
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

function identifierFault(name: string): string | null {
  if (name === '') return 'is empty'
  if (name.includes('\0')) return 'holds a NUL character'
  if (name.endsWith(' ')) return 'ends with a space, which the server does not allow'
  if ([...name].length > 64) return 'is longer than the 64 characters the server allows'
  return null
}
