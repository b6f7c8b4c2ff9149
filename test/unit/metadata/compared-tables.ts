/** Compares two metadata files table by table, byte for byte. */
import Database from 'better-sqlite3'
import type { Test } from 'tap'
import { quoted, recordedTables } from '../../../src/metadata/sqlite/row-change-triggers.ts'

/** Each row as text: the type and the bytes of every column, in the order of the primary key. */
export function contentOf(db: Database.Database): Map<string, string[]> {
  return new Map(recordedTables(db).map(({ name, columns, key }) => [name, rowsOf(db, name, columns, key)]))
}

function rowsOf(
  db: Database.Database,
  name: string,
  columns: readonly string[],
  key: readonly string[],
): string[] {
  // A real number as text has 17 digits, which tell any two apart, except for the sign of a zero.
  const exact = columns.map(
    (column) => `typeof(${quoted(column)}) || ' ' || hex(CAST(${quoted(column)} AS BLOB))`,
  )
  return db
    .prepare<[], string>(
      `SELECT concat_ws(', ', ${exact.join(', ')}) FROM ${quoted(name)} ORDER BY ${key.map(quoted).join(', ')}`,
    )
    .pluck()
    .all()
}

export function contentOfFile(file: string): Map<string, string[]> {
  const db = new Database(file, { readonly: true })
  try {
    return contentOf(db)
  } finally {
    db.close()
  }
}

/** The names of tables that differ. */
export function differing(a: Map<string, string[]>, b: Map<string, string[]>): string[] {
  const names = new Set([...a.keys(), ...b.keys()])
  return [...names].filter((name) => a.get(name)?.join('\n') !== b.get(name)?.join('\n'))
}

export function sameTables(t: Test, copy: string, file: string, message: string): void {
  t.strictSame(differing(contentOfFile(copy), contentOfFile(file)), [], message)
}
