/**
 * The exactly-once mark of a lane in PostgreSQL: the position up to which its records are stored. It moves in the statement
 * that stores them. Rules: `sql/exactly-once-mark.ts`.
 *
 *   WITH moved AS (UPDATE _pipectl_lanes SET … WHERE <it is where it was seen last> RETURNING 1),
 *        stored AS (INSERT INTO t … SELECT … WHERE EXISTS (SELECT 1 FROM moved))
 *   SELECT count(*) FROM moved
 *
 * One statement means one round trip, and no transaction stays open when a client is gone. Only if rejected records are parked,
 * several statements do the same (`insert.ts`); the server ends their transaction after 30 s of silence. The update locks the
 * row before a record is stored. After a wait it sees the current row, and stores nothing if that has moved.
 */
import assert from 'node:assert'
import { randomUUID } from 'node:crypto'
import type { AttemptProgress, Batch, DatabaseSpec, DeliveryError, DriverSettings } from '../driver.ts'
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
import { openSession, type PostgresSession, type Row } from './connection.ts'
import { postgresError } from './errors.ts'
import { quotePostgresIdentifier } from './identifiers.ts'
import { type InsertStatement, recordsParameter } from './statement.ts'
import { readTable, type Table } from './table.ts'

export class ExactlyOnceMark {
  /** The quoted name. */
  readonly table: string
  readonly #session: PostgresSession
  readonly #key: readonly string[]
  readonly #username: string
  /** The position as last read or moved by this connection. */
  #position: MarkPosition | null = null
  /** The position before the open transaction. */
  #before: MarkPosition | null = null

  /** Throws `table_not_transactional`. */
  constructor(session: PostgresSession, table: Table, spec: DatabaseSpec, settings: DriverSettings) {
    requireTransactions(table)
    this.#session = session
    this.table = markTableOf(table)
    this.#key = markKey(spec, settings)
    this.#username = spec.config.username
  }

  /**
   * The part of the batch that is not stored; null if all of it is. Rejects with `lane_row_conflict`, `lane_table_unusable` or
   * the server's error.
   */
  async undelivered(batch: Batch, signal: AbortSignal, progress: AttemptProgress): Promise<Batch | null> {
    const position = this.#position ?? (await this.look(batch.generation, signal))
    // Unknown until a batch is stored from there.
    this.#position = null
    const rest = await undelivered(batch, position, this.table, progress)
    this.#position = position
    return rest
  }

  /** Null: stored, and the row is at the batch's end. A permanent error is returned, any other is thrown. */
  async insert(
    statement: InsertStatement,
    batch: Batch,
    signal: AbortSignal,
  ): Promise<DeliveryError | 'moved' | null> {
    const from = this.#position
    assert(from !== null)
    const to = endOf(batch)
    this.#position = null
    const records = recordsParameter(batch.messages, statement.rules)
    const known = [records, ...statement.values]
    const places = Array.from({ length: 9 }, (_, at) => `$${known.length + 1 + at}`)
    const text = `WITH ${moved} AS (${moveSql(this.table, places)}), ${stored} AS (${statement.textIf(`EXISTS (SELECT 1 FROM ${moved})`)}) SELECT count(*) AS moved FROM ${moved}`
    const values = [...known, ...valuesOf(to), ...this.#key, ...valuesOf(from)]
    try {
      const [row] = await this.#session.run(signal, text, values)
      if (row?.moved !== '1') return 'moved'
      this.#position = to
      return null
    } catch (error) {
      const failure = postgresError(error)
      if (failure.class === 'transient') throw failure
      // The statement stored nothing: the row has its old position.
      this.#position = from
      return failure
    }
  }

  /** Runs in the open transaction. False: another attempt has moved the row; read it again. */
  async move(batch: Batch, signal: AbortSignal): Promise<boolean> {
    const from = this.#position
    assert(from !== null)
    this.#position = null
    this.#before = from
    const places = Array.from({ length: 9 }, (_, at) => `$${1 + at}`)
    const values = [...valuesOf(endOf(batch)), ...this.#key, ...valuesOf(from)]
    return (await this.#session.run(signal, moveSql(this.table, places), values)).length === 1
  }

  /** The transaction that moved the mark past the batch was committed. */
  committed(batch: Batch): void {
    this.#position = endOf(batch)
  }

  /** The transaction that moved the mark, or was about to, was rolled back. */
  rolledBack(): void {
    this.#position ??= this.#before
  }

  /** Waits for an earlier attempt that still holds the row. Creates the table and the row if they are missing. */
  async look(generation: number | undefined, signal: AbortSignal): Promise<MarkPosition> {
    try {
      const found = await this.#select(signal).catch((error: unknown) => {
        if (postgresError(error).code !== undefinedTable) throw error
        return this.#create(signal)
      })
      if (found !== undefined) return positionOf(found, this.table)
      const start = startOf(generation)
      await this.#session.run(
        signal,
        `INSERT INTO ${this.table} (${keyColumns}, ${positionColumns}) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
        [...this.#key, ...valuesOf(start)],
      )
      const row = await this.#select(signal)
      return row === undefined ? start : positionOf(row, this.table)
    } catch (error) {
      const failure = postgresError(error)
      if (failure.code === 'lane_row_conflict') throw failure
      throw markTableUnusable(failure, byHandSql(this.table, this.#username))
    }
  }

  /** Waits until no other transaction holds the row. Keeps no lock itself. */
  async #select(signal: AbortSignal): Promise<Row | undefined> {
    const rows = await this.#session.run(
      signal,
      `SELECT ${positionColumns} FROM ${this.table} WHERE destination_id = $1 AND timeline = $2 AND target = $3 FOR UPDATE`,
      this.#key,
    )
    return rows[0]
  }

  /** If two connections create it at once, the second one can fail although the row exists: the read afterwards decides. */
  async #create(signal: AbortSignal): Promise<Row | undefined> {
    try {
      await this.#session.run(signal, createSql(this.table))
      return undefined
    } catch (error) {
      return await this.#select(signal).catch(() => {
        throw error
      })
    }
  }
}

/** A table that is tested in this session. */
export interface CheckedTable {
  session: PostgresSession
  table: Table
  signal: AbortSignal
}

/**
 * For the test of a destination: runs what an attempt runs on the lane table, and rolls it back. It uses its own id, so that it
 * does not wait for a lane. Returns the result as a sentence; rejects as an attempt would.
 */
export async function tryMark(
  { session, table, signal }: CheckedTable,
  spec: DatabaseSpec,
  settings: DriverSettings,
): Promise<string> {
  const mark = new ExactlyOnceMark(session, table, { ...spec, destinationId: randomUUID() }, settings)
  const [found] = await session.run(signal, 'SELECT to_regclass($1) IS NOT NULL AS there', [mark.table])
  await session.run(signal, 'BEGIN')
  try {
    if (found?.there !== true) await session.run(signal, createSql(mark.table))
  } catch (error) {
    throw markTableUnusable(postgresError(error), byHandSql(mark.table, spec.config.username))
  }
  await mark.look(0, signal)
  await session.run(signal, 'ROLLBACK')
  return checkedTable(mark.table, found?.there === true)
}

/** Removes a deleted destination's marks for all of its tables on this server. Rejects with the server's error. */
export async function forgetMarks(
  spec: DatabaseSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<void> {
  if (!spec.config.exactly_once) return
  const admit = comparedWithPin(spec, settings)
  const session = await openSession(spec.config, settings, admit, signal)
  try {
    const lanes = markTableOf(await readTable(session, spec.config.table, signal))
    const sql = `DELETE FROM ${lanes} WHERE destination_id IN ($1, $2) AND timeline = $3`
    await session.run(signal, sql, keysToForget(spec, settings))
  } finally {
    session.destroy()
  }
}

const undefinedTable = '42P01'
/** Names that no destination table has: a CTE with the name of the target table would hide it. */
const [moved, stored] = ['"pipectl: moved"', '"pipectl: stored"']

function moveSql(table: string, [g, s, m, destination, timeline, target, g0, s0, m0]: readonly string[]) {
  return `UPDATE ${table} SET generation = ${g}::bigint, last_seq = ${s}::bigint, last_msg_id = ${m}::text, moved_at = now()
    WHERE destination_id = ${destination}::text AND timeline = ${timeline}::text AND target = ${target}::text
      AND generation = ${g0}::bigint AND last_seq = ${s0}::bigint AND last_msg_id = ${m0}::text RETURNING 1`
}

/** In the same schema as the destination's table. Quoted. */
export function markTableOf({ schema }: Table): string {
  return `${quotePostgresIdentifier(schema)}.${quotePostgresIdentifier(markTableName)}`
}

export function requireTransactions({ name, isForeign }: Table): void {
  if (isForeign) {
    throw notTransactional(name, 'a foreign table', 'name a table of this server')
  }
}

export function createSql(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (destination_id text, timeline text, target text, generation bigint NOT NULL, last_seq bigint NOT NULL, last_msg_id text NOT NULL, moved_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (destination_id, timeline, target));`
}

export function byHandSql(table: string, username: string): string {
  const user = identifierFault('postgresql', username) === null ? quotePostgresIdentifier(username) : username
  return `${createSql(table)} GRANT SELECT, INSERT, UPDATE, DELETE ON ${table} TO ${user};`
}
