/**
 * Determines whether a transaction was committed when its COMMIT got no response because the connection or the server
 * was lost.
 *
 * Every write transaction first sets its writer's row to the number of the transaction. A writer has one transaction at
 * a time, and two connections never share a writer. Without a response, another connection tries to set the row to a
 * number that no transaction has:
 *
 *   the transaction is still under way   its lock on the row makes us wait
 *   it was committed                     the row has its number, and stays as it is
 *   it was not                           the row is changed or created
 *
 * This also works after a crash and on a promoted standby, because it reads stored data. (pg_xact_status does not:
 * after a crash the server reuses the number of a lost transaction.)
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { endsSession, sqlState } from './errors.ts'
import type { Session } from './session.ts'

export interface Writer {
  readonly id: string
  /** The number of the last transaction that was started. */
  number: number
}

/** Created when the database is opened. It belongs to this folder and is part of no migration. */
export const writersTable = `CREATE TABLE IF NOT EXISTS metadata_writers (
  writer_id text PRIMARY KEY, number bigint NOT NULL, used_ms bigint NOT NULL) WITH (fillfactor = 50)`

const nowMs = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)'
const dayMs = 86_400_000

/** Deletes the rows of processes that ended long ago. */
export const forgetWriters = `DELETE FROM metadata_writers WHERE used_ms < ${nowMs} - ${dayMs}`

/** No part of it comes from outside, so it can be sent in one round trip with the start of the transaction. */
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

  /** `open` opens a connection in addition to those that write. */
  constructor(open: () => Promise<Session>) {
    this.#open = open
  }

  take(): Writer {
    return this.#free.pop() ?? { id: randomUUID(), number: 0 }
  }

  /** The writer has no transaction that is in progress or unknown. */
  release(writer: Writer): void {
    this.#free.push(writer)
  }

  /**
   * Returns true when the writer's last transaction is stored, and false when it is not and never will be. Asks until
   * the server can tell; null when everything was closed before.
   */
  async wasCommitted(writer: Writer): Promise<boolean | null> {
    const { id, number } = writer
    for (;;) {
      if (this.#isClosed) return null
      const answer = await this.#ask(id, number)
      if (answer !== null) {
        this.release(writer)
        return answer
      }
      await delay(pauseMs, undefined, { ref: false })
    }
  }

  /** Waiting callers get null. */
  close(): void {
    this.#isClosed = true
  }

  /** Null when the outcome is not known yet. */
  async #ask(id: string, number: number): Promise<boolean | null> {
    let session: Session | null = null
    try {
      session = await this.#open()
      const { rowCount } = await session.query(overtake, [id, number])
      return rowCount === 0
    } catch (error) {
      // No server, or the transaction is still in progress. Any other error is a bug of ours.
      if (endsSession(error) || /^(40|53|55|57)/.test(sqlState(error) ?? '')) return null
      throw error
    } finally {
      await session?.close()
    }
  }
}
