/** Random statements on the tables of a metadata file, also on those that only a cluster uses. A seed repeats them. */
import type Database from 'better-sqlite3'
import { quoted, recordedTables } from '../../../src/metadata/sqlite/row-change-triggers.ts'
import type { EncodedTable } from '../../../src/metadata/sqlite/row-encoding.ts'
import type { Random } from '../../support/faults/random.ts'

/** No repository reads them on one machine, so they can have any values. */
const free = /^(cluster_|used_keys_|key_claims|quota_|changes$|odd$)/
/** Keys that can be changed without breaking what the repositories expect. */
const movable: Readonly<Record<string, string>> = {
  usage_hours: 'hour_ms',
  lane_history: 'first_seq',
  lane_hours: 'hour_ms',
  rejected_hooks: 'hour_ms',
}

/** A table whose columns have values of any type. */
export const oddTable = 'CREATE TABLE odd (a, b INTEGER, c REAL, d, PRIMARY KEY (a, b)) WITHOUT ROWID'

export class RandomRows {
  readonly #db: Database.Database
  readonly #random: Random
  readonly #tables: EncodedTable[]

  /** The connection has foreign keys on. */
  constructor(db: Database.Database, random: Random) {
    this.#db = db
    this.#random = random
    this.#tables = recordedTables(db)
  }

  step(): void {
    const { below, pick } = this.#random
    const statement = pick([
      this.#insert,
      this.#insert,
      this.#update,
      this.#delete,
      this.#move,
      this.#nothing,
      this.#exchange,
    ])
    try {
      this.#db.transaction(() => {
        for (let left = 1 + below(3); left > 0; left -= 1) statement.call(this)
        // A transaction that is rolled back has recorded nothing.
        if (below(8) === 0) throw new Undone()
      })()
    } catch (error) {
      const isExpected = error instanceof Undone || String(error).includes('constraint failed')
      if (!isExpected) throw error
    }
  }

  #insert(): void {
    const { name, columns, key } = this.#random.pick(this.#tables.filter((table) => free.test(table.name)))
    const values = columns.map(() => this.#value())
    const conflict = this.#random.pick([
      ...['', 'OR IGNORE', 'OR ABORT', 'OR FAIL'].map((or) => ({ or, end: '' })),
      { or: '', end: `ON CONFLICT (${key.map(quoted).join(', ')}) DO NOTHING` },
      {
        or: '',
        end: `ON CONFLICT (${key.map(quoted).join(', ')}) DO UPDATE SET ${quoted(columns.at(-1)!)} = excluded.${quoted(columns.at(-1)!)}`,
      },
    ])
    this.#db
      .prepare(
        `INSERT ${conflict.or} INTO ${quoted(name)} VALUES (${columns.map(() => '?').join(', ')}) ${conflict.end}`,
      )
      .run(values)
  }

  #update(): void {
    const { name, columns } = this.#random.pick(this.#tables.filter((table) => free.test(table.name)))
    const or = this.#random.pick(['', 'OR IGNORE'])
    this.#db
      .prepare(
        `UPDATE ${or} ${quoted(name)} SET ${quoted(this.#random.pick(columns))} = ? WHERE ${this.#anyRow(name)}`,
      )
      .run(this.#value())
  }

  #delete(): void {
    // A deleted workspace would leave few rows for the rest of the test; a parked row needs its body and its sums.
    const tables = this.#tables.filter(
      ({ name }) => !/^(metadata_|workspaces|pipes|destinations|parked|pipe_parked)/.test(name),
    )
    const { name } = this.#random.pick(tables)
    this.#db.prepare(`DELETE FROM ${quoted(name)} WHERE ${this.#anyRow(name)}`).run()
  }

  #move(): void {
    const [table, column] = this.#random.pick(Object.entries(movable))
    const where = this.#anyRow(table)
    this.#db
      .prepare(`UPDATE ${table} SET ${column} = ${column} + ? WHERE ${where}`)
      .run(this.#random.below(50))
  }

  /** Statements that change no row, or no value. */
  #nothing(): void {
    const { name, columns } = this.#random.pick(this.#tables)
    const column = quoted(this.#random.pick(columns))
    this.#db.exec(`INSERT OR IGNORE INTO ${quoted(name)} SELECT * FROM ${quoted(name)}`)
    this.#db.exec(`UPDATE ${quoted(name)} SET ${column} = ${column} WHERE ${this.#anyRow(name)}`)
  }

  /** Two pipes exchange their unique names. */
  #exchange(): void {
    const pipes = this.#db
      .prepare<[], { pipe_id: string; pipe_name: string }>(
        `SELECT pipe_id, pipe_name FROM pipes WHERE workspace_id = (SELECT workspace_id FROM pipes WHERE ${this.#anyRow('pipes')})
         LIMIT 2`,
      )
      .all()
    const [first, second] = pipes
    if (first === undefined || second === undefined) return
    const rename = this.#db.prepare('UPDATE pipes SET pipe_name = ? WHERE pipe_id = ?')
    rename.run('between', first.pipe_id)
    rename.run(first.pipe_name, second.pipe_id)
    rename.run(second.pipe_name, first.pipe_id)
  }

  /** A condition that selects one row, if there is any. */
  #anyRow(table: string): string {
    const { key } = this.#tables.find(({ name }) => name === table)!
    const columns = key.map(quoted).join(', ')
    return `(${columns}) IN (SELECT ${columns} FROM ${quoted(table)} LIMIT 1 OFFSET (
      SELECT ${this.#random.below(1e9)} % max(1, count(*)) FROM ${quoted(table)}))`
  }

  /** Few different values, so that keys meet. */
  #value(): unknown {
    const { below, pick } = this.#random
    return pick<() => unknown>([
      () => below(6),
      () => BigInt(below(6)),
      () => `text ${below(6)}`,
      () => `nul\0 ${below(3)}`,
      () => -0,
      () => below(3) + 0.5,
      () => 2n ** 62n + BigInt(below(3)),
      () => Buffer.from([255, below(3)]),
    ])()
  }
}

/** Ends a transaction of this test. */
class Undone extends Error {}
