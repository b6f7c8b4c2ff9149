/** The facts about the destination's table that the driver needs, from the schema of the file. */
import type Database from 'better-sqlite3'
import { DeliveryError } from '../driver.ts'
import { columnKey } from '../sql/identifiers.ts'
import { kindOf, type SqliteColumn } from './values.ts'

export const missingTable = 'no_such_table'

export interface TableDescription {
  /** Without the directory and the ending. */
  file: string
  name: string
  isStrict: boolean
  columns: readonly SqliteColumn[]
  /** The columns of each unique key. A part over an expression is null. */
  uniqueKeys: readonly (readonly (string | null)[])[]
}

interface ColumnRow {
  name: string
  type: string
  notnull: number
  dflt_value: string | null
  pk: number
  hidden: number
}

/** Throws the permanent `no_such_table` or `not_a_table`. */
export function describeTable(database: Database.Database, file: string, name: string): TableDescription {
  const found = database
    .prepare<[string], { type: string; strict: number; wr: number }>(
      "SELECT type, strict, wr FROM pragma_table_list(?) WHERE schema = 'main'",
    )
    .get(name)
  if (found === undefined) throw noTable(file, name)
  if (found.type !== 'table') {
    const message = `"${name}" in ${file}.sqlite is a ${found.type} table or view, not a table: name a table.`
    throw new DeliveryError('permanent', 'not_a_table', message)
  }
  const rows = database
    .prepare<[string], ColumnRow>(
      'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)',
    )
    .all(name)
  const isStrict = found.strict === 1
  const key = rows.filter(({ pk }) => pk > 0)
  // Such a column is the id of the row, which SQLite assigns for NULL.
  const rowId = key.length === 1 && found.wr === 0 && key[0]!.type.toUpperCase() === 'INTEGER' ? key[0] : null
  return {
    file,
    name,
    isStrict,
    columns: rows.map((row) => ({
      name: row.name,
      type: row.type,
      kind: kindOf(row.type, isStrict),
      isNotNull: row.notnull === 1 || (row.pk > 0 && (isStrict || found.wr === 1) && row !== rowId),
      hasDefault: (row.dflt_value !== null && row.dflt_value.toUpperCase() !== 'NULL') || row === rowId,
      isGenerated: row.hidden !== 0,
    })),
    uniqueKeys: [...(key.length > 0 ? [key.map((row) => row.name)] : []), ...indexKeys(database, name)],
  }
}

export function noTable(file: string, name: string): DeliveryError {
  const message = `${file}.sqlite has no table "${name}": create it, for example with --infer --create-table.`
  return new DeliveryError('permanent', missingTable, message)
}

export function noFile(file: string): DeliveryError {
  const message = `The file ${file}.sqlite does not exist: create it with its table, for example with --infer --create-table.`
  return new DeliveryError('permanent', missingTable, message)
}

function indexKeys(database: Database.Database, table: string): (string | null)[][] {
  const indexes = database
    .prepare<[string], { name: string }>(
      'SELECT name FROM pragma_index_list(?) WHERE "unique" = 1 AND partial = 0',
    )
    .all(table)
  const parts = database.prepare<[string], { name: string | null }>(
    'SELECT name FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno',
  )
  return indexes.map(({ name }) => parts.all(name).map((part) => part.name))
}

/** Names are compared as SQLite does. */
export function findColumn(table: TableDescription, name: string): SqliteColumn | undefined {
  const wanted = columnKey('sqlite', name)
  return table.columns.find((column) => columnKey('sqlite', column.name) === wanted)
}
