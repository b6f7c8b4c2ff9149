/** Each dialect's rules for names, checked when a destination is saved and before a name is quoted. Pure. */
import type { Dialect } from '../../contract/destinations/database.fields.ts'

const maxPostgresBytes = 63
const maxMysqlCharacters = 64

/**
 * Why the server does not allow this name, as a sentence that follows it, or null. PostgreSQL would truncate longer names with
 * only a notice, and MySQL would fail every batch.
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

/** MySQL compares column names case-insensitively; PostgreSQL's are quoted, so case matters. */
export function columnKey(dialect: Dialect, name: string): string {
  return dialect === 'mysql' ? name.toLowerCase() : name
}
