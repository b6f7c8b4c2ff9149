/**
 * Applies encoded rows to a copy of the metadata file. Rows are the latest state of changed rows, so that rows of one
 * `take` and of the next ones can be of different moments: between them a foreign key can be missing, and a unique name
 * can have moved from a row that is not applied yet. Foreign keys are therefore off, and a row replaces all rows that are
 * in its way: each of those has changed too and comes later. After a batch whose `more` was false the copy is equal to the
 * file at the time of that `take`.
 */
import type Database from 'better-sqlite3'
import { quoted, recordedTables, stopRecordingRowChanges } from './row-change-triggers.ts'
import {
  decodeRows,
  type EncodedRow,
  type EncodedTable,
  RowChangesError,
  type StoredValue,
} from './row-encoding.ts'

/**
 * In one transaction: all rows or none. Changes of the copy are not recorded. Throws RowChangesError for damaged bytes, and
 * for a table or a column that the copy does not have. The caller has no transaction.
 */
export function applyRowChanges(db: Database.Database, rows: Buffer): void {
  if (db.inTransaction) throw new Error('rows are applied in a transaction of their own')
  stopRecordingRowChanges(db)
  // The pragma has no effect inside a transaction.
  const foreignKeys = db.pragma('foreign_keys', { simple: true })
  db.pragma('foreign_keys = OFF')
  try {
    const statements = new Statements(db)
    db.transaction(() => {
      for (const row of decodeRows(rows)) statements.apply(row)
    }).immediate()
  } finally {
    db.pragma(`foreign_keys = ${foreignKeys === 1 ? 'ON' : 'OFF'}`)
  }
}

class Statements {
  readonly #db: Database.Database
  readonly #tables: ReadonlyMap<string, EncodedTable>
  readonly #prepared = new Map<string, Database.Statement<unknown[]>>()
  readonly #checked = new Set<EncodedTable>()

  constructor(db: Database.Database) {
    this.#db = db
    this.#tables = new Map(recordedTables(db).map((table) => [table.name, table]))
  }

  apply({ kind, table, values }: EncodedRow): void {
    this.#check(table)
    // Only text needs a statement of its own: it is bound as bytes.
    const shape = values.map((value) => (value.kind === 'text' ? 't' : 'v')).join('')
    const name = `${kind} ${shape} ${table.name}`
    const prepared = this.#prepared.get(name) ?? this.#db.prepare(sqlOf(kind, table, values))
    this.#prepared.set(name, prepared)
    prepared.run(...values.map(bound))
  }

  #check(table: EncodedTable): void {
    if (this.#checked.has(table)) return
    const own = this.#tables.get(table.name)
    if (own === undefined)
      throw new RowChangesError(`the rows belong to a table ${table.name}, which this file does not have`)
    for (const part of ['columns', 'key'] as const)
      if (own[part].join() !== table[part].join())
        throw new RowChangesError(
          `the table ${table.name} has other columns (${own[part].join(', ')}) than the rows (${table[part].join(', ')})`,
        )
    this.#checked.add(table)
  }
}

function sqlOf(kind: EncodedRow['kind'], table: EncodedTable, values: readonly StoredValue[]): string {
  const marks = values.map((value) => (value.kind === 'text' ? 'CAST(? AS TEXT)' : '?'))
  const name = quoted(table.name)
  if (kind === 'row')
    return `INSERT OR REPLACE INTO ${name} (${table.columns.map(quoted).join(', ')}) VALUES (${marks.join(', ')})`
  return `DELETE FROM ${name} WHERE ${table.key.map((column, index) => `${quoted(column)} = ${marks[index]}`).join(' AND ')}`
}

function bound(value: StoredValue): unknown {
  if (value.kind === 'null') return null
  return 'value' in value ? value.value : value.bytes
}
