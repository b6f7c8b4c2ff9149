/**
 * One connection to the server. Every statement has a time limit: first the server's, then ours, which destroys the
 * socket, because a half-open connection would never end.
 */
import { Socket } from 'node:net'
import pg from 'pg'
import type { PostgresTarget } from './url.ts'

export interface SessionLimits {
  /** The time limit of a statement, in ms; 0 for none, for migrations. */
  statementMs: number
  /** How long a statement waits for a lock, in ms. */
  lockMs: number
}

/** The server's limit is shorter than ours: a statement that it aborted cannot commit later without our knowledge. */
const marginMs = 2_000
const connectMs = 5_000
/** After this time, the locks of a paused or disconnected node (SIGSTOP, a lost network) are released. */
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
      // A function, because an empty text would make the client read the environment and ~/.pgpass.
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
    // The end of an idle session is reported only here.
    const died = () => {
      this.#isDead = true
    }
    this.#client.on('error', died)
    this.#client.on('end', died)
  }

  /** Rejects with the pg client's error. */
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

  /** Rejects with the pg client's error. */
  async query(text: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    const timer = this.#deadlineMs === 0 ? undefined : setTimeout(() => this.destroy(), this.#deadlineMs)
    try {
      return await this.#client.query(text, values.map(textToStore))
    } finally {
      clearTimeout(timer)
    }
  }

  /** Listens as long as the session lives; `onEnd` is called when it ends. Rejects with the pg client's error. */
  async listen(channel: string, onNotified: () => void, onEnd: () => void): Promise<void> {
    this.#client.on('notification', onNotified)
    this.#client.on('end', onEnd)
    await this.query(`LISTEN ${pg.escapeIdentifier(channel)}`)
  }

  /** Rejects statements that are in progress. */
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

/** int8, int4, int2, oid, float8, float4, numeric. All stored numbers are below 2^53. */
const numberOids = new Set([20, 23, 21, 26, 701, 700, 1700])
const booleanOid = 16

function getTypeParser(oid: number): (value: string) => unknown {
  if (numberOids.has(oid)) return Number
  return oid === booleanOid ? (value) => value === 't' : storedText
}

/**
 * PostgreSQL text cannot contain U+0000, which JSON allows in descriptions and field names. It is stored as two other
 * characters, so that every text is returned unchanged and equal texts stay equal.
 */
const nul = '\u0000'
/** A noncharacter, which ordinary text does not contain. Where it occurs, it is escaped too. */
const mark = '\u{10FFFE}'

function textToStore(value: unknown): unknown {
  if (typeof value !== 'string' || !(value.includes(nul) || value.includes(mark))) return value
  return value.replaceAll(mark, `${mark}1`).replaceAll(nul, `${mark}0`)
}

function storedText(value: string): string {
  if (!value.includes(mark)) return value
  return value.replaceAll(`${mark}0`, nul).replaceAll(`${mark}1`, mark)
}
