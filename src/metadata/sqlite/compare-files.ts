/** Compares a metadata file that was restored from a replica with the file of the running daemon, which moves on. */
import type Database from 'better-sqlite3'
import { readSqliteFile } from './file.ts'

export interface ComparedTable {
  table: string
  rows: number
  /** In the file of the daemon, at this moment. */
  ownRows: number
  /**
   * Rows that were created before the restored moment and that the restored file lacks. Null: the rows of this table do not
   * say when they were created.
   */
  missing: number | null
}

/** Tables whose rows are created by users and state when. */
const dated: Record<string, { key: string; created: string }> = {
  workspaces: { key: 'workspace_id', created: 'workspace_created_ms' },
  api_keys: { key: 'api_key_id', created: 'api_key_created_ms' },
  pipes: { key: 'pipe_id', created: 'pipe_created_ms' },
  destinations: { key: 'destination_id', created: 'destination_created_ms' },
}

/** A row is committed a moment after its time was taken. */
const commitWithinMs = 5_000

/** By name; tables that are empty in both are left out. Throws errors of SQLite. */
export function compareMetadata(restored: string, own: string, throughMs: number): ComparedTable[] {
  return readSqliteFile(restored, (copy) =>
    readSqliteFile(own, (file) => {
      // One state of all tables.
      file.exec('BEGIN')
      return tablesOf(copy)
        .map((table) => ({
          table,
          rows: countRows(copy, table),
          ownRows: countRows(file, table),
          missing: missingRows({ copy, file, table, beforeMs: throughMs - commitWithinMs }),
        }))
        .filter(({ rows, ownRows }) => rows + ownRows > 0)
    }),
  )
}

/** The recording of changes is of each file alone. */
function tablesOf(database: Database.Database): string[] {
  return database
    .prepare<[], string>(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       AND name NOT LIKE 'row\\_change%' ESCAPE '\\' ORDER BY name`,
    )
    .pluck()
    .all()
}

function countRows(database: Database.Database, table: string): number {
  return database.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() ?? 0
}

function missingRows({
  copy,
  file,
  table,
  beforeMs,
}: {
  copy: Database.Database
  file: Database.Database
  table: string
  beforeMs: number
}): number | null {
  const columns = dated[table]
  if (columns === undefined) return null
  const { key, created } = columns
  const known = new Set(copy.prepare<[], string>(`SELECT ${key} FROM ${table}`).pluck().all())
  const wanted = file.prepare<[number], string>(`SELECT ${key} FROM ${table} WHERE ${created} < ?`).pluck()
  return wanted.all(beforeMs).filter((id) => !known.has(id)).length
}
