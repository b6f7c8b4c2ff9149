/**
 * The tables and triggers that record which rows of the metadata file have changed, for its replica. The triggers run in
 * the transaction of the change, whichever process makes it, so a change and its record are committed together.
 *
 *   row_changes        a row for each changed row since the last `release`
 *     number           grows with each change; the order in which rows are taken
 *     table_name, key_1 … key_3    the primary key of the changed row
 *     is_new           1: the replica never had this row
 *   row_change_state   one row
 *     recording_id     random, see `recordRowChanges`
 *     tables_hash      of the tables that are recorded
 *     taken            rows up to this number can be in the replica: `take` or a copy has read them
 *
 * A row that is recorded and not yet taken keeps its number, so that a row that changes 1,000 times between two takes
 * costs one write. A taken one gets a new number, greater than `taken`, and the release of what was taken leaves it.
 * A row that was created and deleted before it was taken is forgotten. Therefore `row_changes` has at most the rows that
 * the replica has plus the rows that the file has, however long the replica cannot be reached.
 *
 * Rows are identified by the primary key and not by the rowid: VACUUM can change the rowid of a table whose primary key is
 * text. Two statements would pass the triggers unnoticed: `INSERT OR REPLACE` and `UPDATE OR REPLACE`, which delete rows
 * without a trigger. A test rejects them in our code; `ON CONFLICT … DO UPDATE` does the same.
 */
import { createHash, randomUUID } from 'node:crypto'
import type Database from 'better-sqlite3'
import { type EncodedTable, RowChangesError } from './row-encoding.ts'

/** The keys of our tables have at most this many columns. */
const keyColumns = ['key_1', 'key_2', 'key_3'] as const

const changesTable = `CREATE TABLE row_changes (number INTEGER PRIMARY KEY, is_new INTEGER NOT NULL,
  table_name TEXT NOT NULL, ${keyColumns.join(', ')}, UNIQUE (table_name, ${keyColumns.join(', ')}))`
const stateTable =
  'CREATE TABLE row_change_state (recording_id TEXT NOT NULL, tables_hash TEXT NOT NULL, taken INTEGER NOT NULL)'

const ownTables = ['row_changes', 'row_change_state'] as const

/**
 * Adds the tables and the triggers, in one transaction. Repeated calls change nothing. Call it after the migrations and
 * before anything that the replica must have.
 *
 * Returns the id of this recording. A copy of the file and all changes since then are complete only if both belong to one
 * recording. The id is new if the recording was off, or if the tables have changed: then a new copy is needed. `continuedId`:
 * the file was made from copies and changes of that recording, with the same tables. Throws RowChangesError if a table has no primary
 * key.
 */
export function recordRowChanges(db: Database.Database, continuedId: string | null = null): string {
  return db
    .transaction(() => {
      const tables = recordedTables(db)
      const hash = tablesHash(db)
      const known = storedState(db)
      if (known?.tables_hash === hash && hasTriggers(db, tables)) return known.recording_id
      remove(db)
      const id = continuedId ?? randomUUID()
      db.exec(changesTable)
      db.exec(stateTable)
      db.prepare('INSERT INTO row_change_state (recording_id, tables_hash, taken) VALUES (?, ?, 0)').run(
        id,
        hash,
      )
      for (const { sql } of tables.flatMap(triggersOf)) db.exec(sql)
      return id
    })
    .immediate()
}

/** Removes the tables and the triggers, in one transaction. */
export function stopRecordingRowChanges(db: Database.Database): void {
  if (ownNames(db).length === 0) return
  db.transaction(() => remove(db)).immediate()
}

/** The id of the recording; null: changes are not recorded. */
export function recordingIdOf(db: Database.Database): string | null {
  return storedState(db)?.recording_id ?? null
}

/** All tables of the file. Throws RowChangesError if one has no primary key. */
export function recordedTables(db: Database.Database): EncodedTable[] {
  const names = db
    .prepare<[], string>(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       AND name NOT IN (${ownTables.map((name) => `'${name}'`).join(', ')}) ORDER BY name`,
    )
    .pluck()
    .all()
  return names.map((name) => tableOf(db, name))
}

function tableOf(db: Database.Database, name: string): EncodedTable {
  const found = db
    .prepare<[string], { name: string; pk: number }>('SELECT name, pk FROM pragma_table_info(?) ORDER BY cid')
    .all(name)
  const key = found.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk)
  if (key.length === 0 || key.length > keyColumns.length)
    throw new RowChangesError(
      `changes of the table ${name} cannot be recorded: its primary key has ${key.length} columns, not 1 to ${keyColumns.length}`,
    )
  return { name, columns: found.map((column) => column.name), key: key.map((column) => column.name) }
}

/** Quotes an identifier. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function text(value: string): string {
  return `'${value.replaceAll("'", "''")}'`
}

interface Trigger {
  name: string
  sql: string
}

const nextNumber = `(SELECT max(taken, coalesce((SELECT max(number) FROM row_changes), 0)) + 1 FROM row_change_state)`
const taken = '(SELECT taken FROM row_change_state)'
// A row that was taken can be in the replica, so it is not new any more.
const orRenumber = `ON CONFLICT (table_name, ${keyColumns.join(', ')})
    DO UPDATE SET number = excluded.number, is_new = 0 WHERE number <= ${taken}`

function triggersOf({ name, key }: EncodedTable): Trigger[] {
  const trigger = (event: string, when: string, statements: string[]): Trigger => {
    const triggerName = `row_changes_${name}_${event}`
    return {
      name: triggerName,
      sql: `CREATE TRIGGER ${quoted(triggerName)} AFTER ${when} BEGIN\n  ${statements.join(';\n  ')};\nEND`,
    }
  }
  const isMoved = key.map((column) => `OLD.${quoted(column)} IS NOT NEW.${quoted(column)}`).join(' OR ')
  const keyList = key.map(quoted).join(', ')
  const table = quoted(name)
  return [
    trigger('inserted', `INSERT ON ${table}`, [record(name, keyOf('NEW', key), 1)]),
    trigger('updated', `UPDATE ON ${table}`, [record(name, keyOf('NEW', key), 0)]),
    trigger(
      'moved',
      `UPDATE OF ${keyList} ON ${table} WHEN ${isMoved}`,
      recordDeletion(name, keyOf('OLD', key)),
    ),
    trigger('deleted', `DELETE ON ${table}`, recordDeletion(name, keyOf('OLD', key))),
  ]
}

/** The values of the key columns of `row_changes`. */
function keyOf(row: 'OLD' | 'NEW', key: readonly string[]): string[] {
  return keyColumns.map((_, index) => {
    const column = key[index]
    return column === undefined ? '0' : `${row}.${quoted(column)}`
  })
}

function record(table: string, key: readonly string[], isNew: 0 | 1): string {
  return `INSERT INTO row_changes (number, is_new, table_name, ${keyColumns.join(', ')})
    VALUES (${nextNumber}, ${isNew}, ${text(table)}, ${key.join(', ')})
    ${orRenumber}`
}

/** A row that the replica never had leaves nothing. */
function recordDeletion(table: string, key: readonly string[]): string[] {
  const isRow = [
    `table_name = ${text(table)}`,
    ...keyColumns.map((column, index) => `${column} = ${key[index]}`),
  ]
  const isUnknownThere = `${isRow.join(' AND ')} AND is_new = 1 AND number > ${taken}`
  return [
    `INSERT INTO row_changes (number, is_new, table_name, ${keyColumns.join(', ')})
    SELECT ${nextNumber}, 0, ${text(table)}, ${key.join(', ')}
    WHERE NOT EXISTS (SELECT 1 FROM row_changes WHERE ${isUnknownThere})
    ${orRenumber}`,
    `DELETE FROM row_changes WHERE ${isUnknownThere}`,
  ]
}

function hasTriggers(db: Database.Database, tables: readonly EncodedTable[]): boolean {
  const stored = db
    .prepare<[], [string, string]>(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'row\\_changes\\_%' ESCAPE '\\'",
    )
    .raw()
    .all()
  const wanted = tables.flatMap(triggersOf)
  const byName = new Map(stored)
  return byName.size === wanted.length && wanted.every(({ name, sql }) => byName.get(name) === sql)
}

/** Another definition of a table can mean that its rows changed without a trigger: a new column has a default. */
function tablesHash(db: Database.Database): string {
  const definitions = db
    .prepare(
      `SELECT sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       AND name NOT IN (${ownTables.map(text).join(', ')}) ORDER BY name`,
    )
    .pluck()
    .all()
  const hash = createHash('sha256')
  for (const definition of [changesTable, stateTable, ...definitions]) hash.update(`${definition}\n`)
  return hash.digest('hex')
}

function storedState(db: Database.Database): { recording_id: string; tables_hash: string } | undefined {
  if (ownNames(db).filter(({ type }) => type === 'table').length < ownTables.length) return undefined
  return db
    .prepare<[], { recording_id: string; tables_hash: string }>(
      'SELECT recording_id, tables_hash FROM row_change_state',
    )
    .get()
}

function ownNames(db: Database.Database): { type: 'table' | 'trigger'; name: string }[] {
  return db
    .prepare<[], { type: 'table' | 'trigger'; name: string }>(
      `SELECT type, name FROM sqlite_schema WHERE type = 'table' AND name IN (${ownTables.map(text).join(', ')})
       OR type = 'trigger' AND name LIKE 'row\\_changes\\_%' ESCAPE '\\'`,
    )
    .all()
}

/** Triggers first: a trigger whose table is gone fails the change that fires it. */
function remove(db: Database.Database): void {
  const names = ownNames(db).sort((a, b) => (a.type < b.type ? 1 : -1))
  for (const { type, name } of names) db.exec(`DROP ${type} ${quoted(name)}`)
}
