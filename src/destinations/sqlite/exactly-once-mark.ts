/**
 * The exactly-once mark of a lane in a table file: the position up to which its records are stored. It moves in the
 * transaction that stores them. Rules: `sql/exactly-once-mark.ts`. The transaction has the write lock of the file from its
 * beginning, so no other attempt can move the mark between the read and the write.
 */
import type Database from 'better-sqlite3'
import { DeliveryError } from '../driver.ts'
import {
  keyColumns,
  type MarkPosition,
  markTableName,
  positionColumns,
  positionOf,
  valuesOf,
} from '../sql/exactly-once-mark.ts'
import { rowFaultOf } from './errors.ts'

/** Runs in the open transaction. `key`: the values of `keyColumns`. Null: this lane has no mark. */
export function readMark(database: Database.Database, key: readonly string[]): MarkPosition | null {
  return inLaneTable(() => {
    database.exec(createSql)
    const row = database
      .prepare<string[], Record<string, unknown>>(
        `SELECT ${positionColumns} FROM ${markTableName} WHERE destination_id = ? AND timeline = ? AND target = ?`,
      )
      .get(...key)
    return row === undefined ? null : positionOf(row, markTableName)
  })
}

export function moveMark(database: Database.Database, key: readonly string[], to: MarkPosition): void {
  inLaneTable(() => {
    const [generation, lastSeq, lastMsgId] = valuesOf(to)
    database
      .prepare(
        `INSERT INTO ${markTableName} (${keyColumns}, ${positionColumns}) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (${keyColumns}) DO UPDATE SET generation = excluded.generation, last_seq = excluded.last_seq,
           last_msg_id = excluded.last_msg_id, moved_at = datetime('now')`,
      )
      .run(...key, BigInt(generation!), BigInt(lastSeq!), lastMsgId)
  })
}

/** Removes the marks of a deleted destination. `keys`: see `keysToForget`. */
export function forgetMarks(database: Database.Database, keys: readonly string[]): void {
  if (!hasMarkTable(database)) return
  database
    .prepare(`DELETE FROM ${markTableName} WHERE destination_id IN (?, ?) AND timeline = ?`)
    .run(...keys)
}

export function hasMarkTable(database: Database.Database): boolean {
  const found = database
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?")
    .get(markTableName)
  return found !== undefined
}

const createSql = `CREATE TABLE IF NOT EXISTS ${markTableName} (destination_id TEXT NOT NULL, timeline TEXT NOT NULL, target TEXT NOT NULL, generation INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_msg_id TEXT NOT NULL, moved_at TEXT NOT NULL DEFAULT (datetime('now')), PRIMARY KEY (destination_id, timeline, target)) STRICT`

/** A table of this name with other columns is not that of pipectl. */
function inLaneTable<T>(work: () => T): T {
  try {
    return work()
  } catch (cause) {
    if (cause instanceof DeliveryError || rowFaultOf(cause) === 'destination') throw cause
    const message = `exactly_once needs the table ${markTableName}, and the table of this name in the file is another one: rename it.`
    throw new DeliveryError('permanent', 'lane_table_unusable', message, { cause })
  }
}
