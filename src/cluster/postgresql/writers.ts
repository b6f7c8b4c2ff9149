/**
 * Whether a transaction took place whose COMMIT was not answered, because the connection or the server went away.
 *
 * Every write transaction begins by giving its writer's row the number of the transaction. A writer has one transaction at
 * a time; two connections never have the same writer. When no answer came, another connection tries to give the row a number
 * that no transaction has:
 *
 *   the transaction is still under way   its lock on the row makes us wait
 *   it was committed                     the row has its number, and stays as it is
 *   it was not                           the row is changed, or made
 *
 * This holds after a crash and on a standby that was promoted: it asks for what is stored. (The server's own answer,
 * pg_xact_status, does not: after a crash it gives the number of a transaction that was lost to another one.)
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { endsSession, sqlState } from './errors.ts'
import type { Session } from './session.ts'

export interface Writer {
  readonly id: string
  /** The number of the last transaction that was begun. */
  number: number
}

/** Made when the database is opened; it belongs to this folder and is in no migration. */
export const writersTable = `CREATE TABLE IF NOT EXISTS metadata_writers (
  writer_id text PRIMARY KEY, number bigint NOT NULL, used_ms bigint NOT NULL) WITH (fillfactor = 50)`

const nowMs = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)'
const dayMs = 86_400_000

/** Removes the rows of processes that ended long ago. */
export const forgetWriters = `DELETE FROM metadata_writers WHERE used_ms < ${nowMs} - ${dayMs}`

/** Nothing of it comes from outside: it is one round trip with the beginning of the transaction. */
export function beginWriting(writer: Writer): string {
  writer.number += 1
  return `INSERT INTO metadata_writers VALUES ('${writer.id}', ${writer.number}, ${nowMs})
    ON CONFLICT (writer_id) DO UPDATE SET number = excluded.number, used_ms = excluded.used_ms`
}

const overtake = `INSERT INTO metadata_writers VALUES ($1, -1, ${nowMs})
  ON CONFLICT (writer_id) DO UPDATE SET number = -1 WHERE metadata_writers.number <> $2 RETURNING writer_id`

const pauseMs = 250

export class Writers {
  readonly #open: () => Promise<Session>
  readonly #free: Writer[] = []
  #isClosed = false

  /** `open`: of a connection beside those that write. */
  constructor(open: () => Promise<Session>) {
    this.#open = open
  }

  take(): Writer {
    return this.#free.pop() ?? { id: randomUUID(), number: 0 }
  }

  /** None of its transactions is under way, nor unknown. */
  giveBack(writer: Writer): void {
    this.#free.push(writer)
  }

  /**
   * True: the last transaction of the writer is stored; false: it is not, and never will be. Asks until the server can say;
   * null: everything was closed before it could.
   */
  async wasCommitted(writer: Writer): Promise<boolean | null> {
    const { id, number } = writer
    for (;;) {
      if (this.#isClosed) return null
      const answer = await this.#ask(id, number)
      if (answer !== null) {
        this.giveBack(writer)
        return answer
      }
      await delay(pauseMs, undefined, { ref: false })
    }
  }

  /** Who waits for an answer gets none any more. */
  close(): void {
    this.#isClosed = true
  }

  /** Null: it cannot be said yet. */
  async #ask(id: string, number: number): Promise<boolean | null> {
    let session: Session | null = null
    try {
      session = await this.#open()
      const { rowCount } = await session.query(overtake, [id, number])
      return rowCount === 0
    } catch (error) {
      // No server, or the transaction is still under way. Everything else would be a mistake of ours.
      if (endsSession(error) || /^(40|53|55|57)/.test(sqlState(error) ?? '')) return null
      throw error
    } finally {
      await session?.close()
    }
  }
}
