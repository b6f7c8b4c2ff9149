/** The only place where external names become part of a PostgreSQL statement. */
import { DeliveryError } from '../driver.ts'
import { identifierFault } from '../sql/identifiers.ts'

/**
 * A name in double quotes, safe in a statement. Throws a permanent `invalid_identifier` for a name that PostgreSQL does not
 * allow.
 */
export function quotePostgresIdentifier(name: string): string {
  const fault = identifierFault('postgresql', name)
  if (fault !== null) {
    throw new DeliveryError('permanent', 'invalid_identifier', `The name ${shown(name)} ${fault}.`)
  }
  return `"${name.replaceAll('"', '""')}"`
}

/** `table` or `schema.table`, each part quoted. Further dots belong to the table's name. */
export function quotePostgresTable(table: string): string {
  const dot = table.indexOf('.')
  if (dot === -1) return quotePostgresIdentifier(table)
  return `${quotePostgresIdentifier(table.slice(0, dot))}.${quotePostgresIdentifier(table.slice(dot + 1))}`
}

function shown(name: string): string {
  const text = JSON.stringify(name)
  return text.length > 80 ? `${text.slice(0, 80)}…"` : text
}
