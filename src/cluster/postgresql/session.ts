/**
 * One connection to the server. Every statement has an end: the server's own limit first, then ours, which destroys the
 * socket, because a half-open connection would never end.
 */
import { Socket } from 'node:net'
import pg from 'pg'
import type { PostgresTarget } from './url.ts'

export interface SessionLimits {
  /** The limit of a statement, in ms. 0: none, for migrations. */
  statementMs: number
  /** How long a statement waits for a lock, ms. */
  lockMs: number
}

/** The server gives up before we do: what it has given up does not commit behind our back. */
const marginMs = 2_000
const connectMs = 5_000
/** The locks of a node that is paused (SIGSTOP, a lost network) are released after that time. */
const idleInTransactionMs = 4_000

export class Session {
  readonly #client: pg.Client
  readonly #socket: Socket
  readonly #deadlineMs: number
  #isDead = false

  private constructor(target: PostgresTarget, limits: SessionLimits) {
    this.#socket = new Socket()
    this.#deadlineMs = limits.statementMs === 0 ? 0 : limits.statementMs + marginMs
    const { host, port, database, user, password, ssl } = target
    this.#client = new pg.Client({
      host,
      port,
      database,
      user,
      ssl,
      // A function, because an empty text would make the client look into the environment and ~/.pgpass.
      password: () => password,
      stream: () => this.#socket,
      application_name: 'pipectl',
      client_encoding: 'UTF8',
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      connectionTimeoutMillis: connectMs,
      statement_timeout: limits.statementMs,
      lock_timeout: limits.lockMs,
      idle_in_transaction_session_timeout: limits.statementMs === 0 ? 0 : idleInTransactionMs,
      types: { getTypeParser },
    })
    // One that ends while nobody uses it says so here, and nowhere else.
    const died = () => {
      this.#isDead = true
    }
    this.#client.on('error', died)
    this.#client.on('end', died)
  }

  /** Rejects with the pg client's own error. */
  static async open(target: PostgresTarget, limits: SessionLimits): Promise<Session> {
    const session = new Session(target, limits)
    try {
      await session.#client.connect()
      return session
    } catch (error) {
      session.destroy()
      throw error
    }
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** Rejects with the pg client's own error. */
  async query(text: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    const timer = this.#deadlineMs === 0 ? undefined : setTimeout(() => this.destroy(), this.#deadlineMs)
    try {
      return await this.#client.query(text, values.map(textToStore))
    } finally {
      clearTimeout(timer)
    }
  }

  /** From now on, for as long as the session lives; `onEnd`: it does not any more. Rejects with the pg client's own error. */
  async listen(channel: string, onNotified: () => void, onEnd: () => void): Promise<void> {
    this.#client.on('notification', onNotified)
    this.#client.on('end', onEnd)
    await this.query(`LISTEN ${pg.escapeIdentifier(channel)}`)
  }

  /** Statements that are under way reject. */
  destroy(): void {
    this.#isDead = true
    this.#socket.destroy()
  }

  async close(): Promise<void> {
    this.#isDead = true
    const timer = setTimeout(() => this.#socket.destroy(), marginMs)
    await this.#client.end().catch(() => {})
    clearTimeout(timer)
  }
}

/** int8, int4, int2, oid, float8, float4, numeric: all that is stored is below 2^53. */
const numberOids = new Set([20, 23, 21, 26, 701, 700, 1700])
const booleanOid = 16

function getTypeParser(oid: number): (value: string) => unknown {
  if (numberOids.has(oid)) return Number
  return oid === booleanOid ? (value) => value === 't' : storedText
}

/**
 * PostgreSQL takes every character in a text but U+0000, which JSON allows in a description or the name of a field. It is
 * stored as two others, so that every text comes back as it was given and two texts are equal when they were.
 */
const nul = '\u0000'
/** A noncharacter: no text of people has it; one that has it is escaped too. */
const mark = '\u{10FFFE}'

function textToStore(value: unknown): unknown {
  if (typeof value !== 'string' || !(value.includes(nul) || value.includes(mark))) return value
  return value.replaceAll(mark, `${mark}1`).replaceAll(nul, `${mark}0`)
}

function storedText(value: string): string {
  if (!value.includes(mark)) return value
  return value.replaceAll(`${mark}0`, nul).replaceAll(`${mark}1`, mark)
}
