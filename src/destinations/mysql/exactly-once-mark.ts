/**
 * The exactly-once mark of a lane in MySQL and MariaDB: the position up to which its records are stored. It moves in the
 * transaction that stores them. Rules: `sql/exactly-once-mark.ts`.
 *
 *   UPDATE _pipectl_lanes … WHERE <it is where it was seen last> ──1 row──▶ INSERT … ──▶ COMMIT
 *                                                                └─0 rows─▶ ROLLBACK, SELECT … FOR UPDATE, once more
 *
 * An UPDATE sees the last committed row, whatever the isolation level, and waits for another transaction that holds it.
 */
import assert from 'node:assert'
import type { AttemptProgress, Batch, DatabaseSpec, DriverSettings } from '../driver.ts'
import {
  checkedTable,
  endOf,
  keyColumns,
  keysToForget,
  type MarkPosition,
  markKey,
  markTableName,
  markTableUnusable,
  notTransactional,
  positionColumns,
  positionOf,
  startOf,
  undelivered,
  valuesOf,
} from '../sql/exactly-once-mark.ts'
import { identifierFault } from '../sql/identifiers.ts'
import { comparedWithPin } from '../sql/server-key.ts'
import { connectMysql, type MysqlConnection } from './connection.ts'
import { mysqlError, serverErrorOf } from './errors.ts'
import { quoteMysqlIdentifier, splitTableName } from './identifiers.ts'
import { engineOf, type TableDescription } from './table.ts'

export class ExactlyOnceMark {
  /** The quoted name. */
  readonly table: string
  readonly #connection: MysqlConnection
  readonly #key: string[]
  readonly #byHand: string
  /** The position as last read or moved by this connection. */
  #position: MarkPosition | null = null
  /** The position after the open transaction. */
  #moving: MarkPosition | null = null
  #from: MarkPosition | null = null

  /** Creates the lane table if it is missing. Rejects with `table_not_transactional` or `lane_table_unusable`. */
  static async open(
    connection: MysqlConnection,
    table: TableDescription,
    spec: DatabaseSpec,
    settings: DriverSettings,
  ): Promise<ExactlyOnceMark> {
    requireTransactions(table)
    const mark = new ExactlyOnceMark(connection, table, spec, settings)
    await mark.#requireTable(table)
    return mark
  }

  private constructor(
    connection: MysqlConnection,
    table: TableDescription,
    spec: DatabaseSpec,
    settings: DriverSettings,
  ) {
    this.#connection = connection
    this.table = markTableOf(table)
    this.#key = markKey(spec, settings)
    this.#byHand = byHandSql(this.table, spec.config.username)
  }

  /**
   * The part of the batch that is not stored; null if all of it is. Rejects with `lane_row_conflict`, `lane_table_unusable` or
   * the server's error.
   */
  async undelivered(batch: Batch, progress: AttemptProgress): Promise<Batch | null> {
    this.#position ??= await this.#look(batch.generation)
    return await undelivered(batch, this.#position, this.table, progress)
  }

  /** Runs in the open transaction. False: another attempt has moved the row; read it again. */
  async move(batch: Batch): Promise<boolean> {
    const from = this.#position
    assert(from !== null)
    const to = endOf(batch)
    this.#from = from
    this.#position = null
    const values = [...valuesOf(to), ...this.#key, ...valuesOf(from)]
    const found = await this.#connection.update(moveSql(this.table), values)
    this.#moving = found === 1 ? to : null
    return found === 1
  }

  /** The transaction that moved the mark was rolled back: the old position applies again. */
  rolledBack(): void {
    this.#position = this.#from
  }

  /** The transaction that moved the mark was committed. */
  committed(): void {
    this.#position = this.#moving
  }

  /** Leaves the row locked if it exists. If it is missing, creates it outside the batch's transaction. */
  async #look(generation: number | undefined): Promise<MarkPosition> {
    try {
      const found = await this.#select()
      if (found !== null) return found
      // Ends the transaction first: the search for the missing row holds a gap lock, and two first attempts would deadlock.
      await this.#connection.command('ROLLBACK')
      const start = startOf(generation)
      await this.#connection.execute(startSql(this.table), [...this.#key, ...valuesOf(start)])
      await this.#connection.command('COMMIT')
      return (await this.#select()) ?? start
    } catch (error) {
      throw this.#unusable(error)
    }
  }

  async #select(): Promise<MarkPosition | null> {
    const [row] = await this.#connection.select(lookSql(this.table), this.#key)
    return row === undefined ? null : positionOf(row, this.table)
  }

  /** Creating a table commits implicitly, so it happens before anything is stored. */
  async #requireTable({ database }: TableDescription): Promise<void> {
    const found = () => engineOf(this.#connection.select, [database, markTableName])
    try {
      if ((await found()) === null) await this.#connection.command(createSql(this.table))
      const made = await found()
      // The catalog was read in a transaction.
      await this.#connection.command('COMMIT')
      if (made !== null) requireTransactions({ database, name: markTableName, ...made })
    } catch (error) {
      throw this.#unusable(error)
    }
  }

  /** Wraps the server's errors about the lane table; returns any other error unchanged. */
  #unusable(error: unknown): unknown {
    return serverErrorOf(error) === null ? error : markTableUnusable(mysqlError(error, 0), this.#byHand)
  }
}

/**
 * For the test of a destination: the server checks the statements, and with them names and privileges, without running them.
 * Returns the result as a sentence; rejects as an attempt would.
 */
export async function tryMark(
  connection: MysqlConnection,
  table: TableDescription,
  { config }: DatabaseSpec,
): Promise<string> {
  requireTransactions(table)
  const { database } = table
  const lanes = markTableOf(table)
  const made = await engineOf(connection.select, [database, markTableName])
  if (made !== null) requireTransactions({ database, name: markTableName, ...made })
  const used = [lookSql(lanes), startSql(lanes), moveSql(lanes)]
  try {
    for (const sql of made === null ? [createSql(lanes)] : used) await connection.prepare(sql)
  } catch (error) {
    if (serverErrorOf(error) === null) throw error
    throw markTableUnusable(mysqlError(error, 0), byHandSql(lanes, config.username))
  }
  return checkedTable(lanes, made !== null)
}

/** Removes a deleted destination's marks for all of its tables on this server. Rejects with the server's error. */
export async function forgetMarks(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<void> {
  if (!spec.config.exactly_once) return
  const admit = comparedWithPin(spec, settings)
  const connection = await connectMysql(spec, settings, admit, signal)
  const onAbort = () => connection.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const lanes = markTableOf(splitTableName(spec.config.table, spec.config.database))
    const sql = `DELETE FROM ${lanes} WHERE destination_id IN (?, ?) AND timeline = ?`
    await connection.update(sql, keysToForget(spec, settings))
    await connection.command('COMMIT')
  } finally {
    signal.removeEventListener('abort', onAbort)
    await connection.close()
  }
}

function lookSql(table: string): string {
  return `SELECT ${positionColumns} FROM ${table} WHERE destination_id = ? AND timeline = ? AND target = ? FOR UPDATE`
}

function startSql(table: string): string {
  return `INSERT INTO ${table} (${keyColumns}, ${positionColumns}) VALUES (?, ?, ?, ?, ?, ?)
    ON DUPLICATE KEY UPDATE destination_id = VALUES(destination_id)`
}

function moveSql(table: string): string {
  return `UPDATE ${table} SET generation = CAST(? AS SIGNED), last_seq = CAST(? AS SIGNED), last_msg_id = ?, moved_at = CURRENT_TIMESTAMP
    WHERE destination_id = ? AND timeline = ? AND target = ?
      AND generation = CAST(? AS SIGNED) AND last_seq = CAST(? AS SIGNED) AND last_msg_id = ?`
}

/** In the same database as the destination's table. Quoted. */
export function markTableOf({ database }: { database: string }): string {
  return `${quoteMysqlIdentifier(database)}.${quoteMysqlIdentifier(markTableName)}`
}

type TableNature = Pick<TableDescription, 'database' | 'name' | 'engine' | 'isTransactional'>

/** Checks the destination's table and the lane table: a user may have created the latter with another engine. */
export function requireTransactions({ database, name, engine, isTransactional }: TableNature): void {
  const shown = `${database}.${name}`
  if (engine === null) throw notTransactional(shown, 'a view', 'name the table itself')
  if (!isTransactional) {
    throw notTransactional(
      shown,
      `of the engine ${engine}, which has none`,
      `run ALTER TABLE ${quoteMysqlIdentifier(database)}.${quoteMysqlIdentifier(name)} ENGINE = InnoDB`,
    )
  }
}

export function createSql(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (destination_id VARCHAR(64), timeline VARCHAR(100), target VARCHAR(200), generation BIGINT NOT NULL, last_seq BIGINT NOT NULL, last_msg_id VARCHAR(100) NOT NULL, moved_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (destination_id, timeline, target)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;`
}

export function byHandSql(table: string, username: string): string {
  const user = identifierFault('mysql', username) === null ? quoteMysqlIdentifier(username) : username
  return `${createSql(table)} GRANT SELECT, INSERT, UPDATE, DELETE ON ${table} TO ${user}@\`%\`;`
}
