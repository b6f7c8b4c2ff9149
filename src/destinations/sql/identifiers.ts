/** The only place where names from outside become part of a PostgreSQL statement. */
import { DeliveryError } from '../driver.ts'

const maxBytes = 63

/**
 * A name in double quotes, safe to stand in a statement. Throws a permanent `invalid_identifier` for what PostgreSQL
 * cannot hold: an empty name, NUL, or over 63 bytes, which it would cut off with no more than a notice.
 */
export function quotePostgresIdentifier(name: string): string {
  const problem =
    name === ''
      ? 'is empty'
      : name.includes('\0')
        ? 'holds a NUL character'
        : Buffer.byteLength(name) > maxBytes
          ? `is longer than ${maxBytes} bytes`
          : null
  if (problem) {
    throw new DeliveryError('permanent', 'invalid_identifier', `The name ${shown(name)} ${problem}.`)
  }
  return `"${name.replaceAll('"', '""')}"`
}

/** `table` or `schema.table`, each part quoted. A further dot belongs to the table's name. */
export function quotePostgresTable(table: string): string {
  const dot = table.indexOf('.')
  if (dot === -1) return quotePostgresIdentifier(table)
  return `${quotePostgresIdentifier(table.slice(0, dot))}.${quotePostgresIdentifier(table.slice(dot + 1))}`
}

function shown(name: string): string {
  const text = JSON.stringify(name)
  return text.length > 80 ? `${text.slice(0, 80)}…"` : text
}
