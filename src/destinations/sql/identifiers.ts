/** Each dialect's rules for names, checked when a destination is saved and before a name is quoted. Pure. */
import type { Dialect } from '../../contract/destinations/database.fields.ts'

/** The dialects of servers, and that of SQLite files. */
export type SqlDialect = Dialect | 'sqlite'

const maxPostgresBytes = 63
const maxMysqlCharacters = 64
/** The length of a column name in a mapping. SQLite itself has no limit. */
const maxSqliteCharacters = 128

/**
 * Why the server does not allow this name, as a sentence that follows it, or null. PostgreSQL would truncate longer names with
 * only a notice, and MySQL would fail every batch.
 */
export function identifierFault(dialect: SqlDialect, name: string): string | null {
  if (name.trim() === '') return 'must not be empty'
  if (/\p{Cc}/u.test(name)) return 'must not contain control characters'
  if (dialect === 'mysql') {
    if (name.endsWith(' ')) return 'must not end with a space'
    return [...name].length > maxMysqlCharacters
      ? `must be at most ${maxMysqlCharacters} characters for this dialect`
      : null
  }
  if (dialect === 'sqlite') {
    return name.length > maxSqliteCharacters
      ? `must be at most ${maxSqliteCharacters} characters for this dialect`
      : null
  }
  return Buffer.byteLength(name) > maxPostgresBytes
    ? `must be at most ${maxPostgresBytes} bytes for this dialect`
    : null
}

/**
 * MySQL compares column names case-insensitively, and SQLite does so for the letters of ASCII. PostgreSQL's are quoted,
 * so case matters.
 */
export function columnKey(dialect: SqlDialect, name: string): string {
  if (dialect === 'sqlite') return asciiLowerCase(name)
  return dialect === 'mysql' ? name.toLowerCase() : name
}

function asciiLowerCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
