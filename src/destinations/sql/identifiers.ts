/** The rules of each dialect for names: checked when a destination is saved, and before a name is quoted. Pure. */
import type { Dialect } from '../../contract/destinations/database.fields.ts'

const maxPostgresBytes = 63
const maxMysqlCharacters = 64

/**
 * Why the server could not hold this name, as a sentence after it; null: it can. PostgreSQL cuts longer names off with
 * no more than a notice, and MySQL would fail on each batch.
 */
export function identifierFault(dialect: Dialect, name: string): string | null {
  if (name.trim() === '') return 'must not be empty'
  if (/\p{Cc}/u.test(name)) return 'must not contain control characters'
  if (dialect === 'mysql') {
    if (name.endsWith(' ')) return 'must not end with a space'
    return [...name].length > maxMysqlCharacters
      ? `must be at most ${maxMysqlCharacters} characters for this dialect`
      : null
  }
  return Buffer.byteLength(name) > maxPostgresBytes
    ? `must be at most ${maxPostgresBytes} bytes for this dialect`
    : null
}

/** MySQL compares column names without regard to case; PostgreSQL's are quoted, so there case counts. */
export function columnKey(dialect: Dialect, name: string): string {
  return dialect === 'mysql' ? name.toLowerCase() : name
}
