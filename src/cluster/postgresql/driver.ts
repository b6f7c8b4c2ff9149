/**
 * Connections and transactions for Kysely. A write transaction has a writer (`writers.ts`), which determines the
 * outcome of a COMMIT without a response:
 *
 *   the connection is lost before COMMIT   nothing is stored: unavailable
 *   no response to COMMIT, it was stored   success; the caller does not notice
 *   no response to COMMIT, it was not      a conflict: the transaction runs again
 *   unknown for `outcomeMs`                UnknownOutcomeError, which keeps asking
 */
import type { CompiledQuery, DatabaseConnection, Driver, QueryResult, TransactionSettings } from 'kysely'
import { UnknownOutcomeError, WriteConflictError } from '../../metadata/transactions.ts'
import { endsSession, sqlState, storageError, unavailableError } from './errors.ts'
import type { SessionPool } from './pool.ts'
import type { Session } from './session.ts'
import { beginWriting, type Writer, type Writers } from './writers.ts'

/** How long a caller waits for the outcome of its transaction. */
const outcomeMs = 10_000

export class PostgresDriver implements Driver {
  readonly #pool: SessionPool
  readonly #writers: Writers | null
  readonly #label: string

  /** `writers` is null where the outcome does not matter and no caller could wait for it. */
  constructor(pool: SessionPool, writers: Writers | null, label: string) {
    this.#pool = pool
    this.#writers = writers
    this.#label = label
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PostgresConnection> {
    try {
      return new PostgresConnection(await this.#pool.acquire(), this.#pool, this.#label)
    } catch (error) {
      throw storageError(error, this.#label)
    }
  }

  async beginTransaction(connection: PostgresConnection, settings: TransactionSettings): Promise<void> {
    const level = settings.isolationLevel ?? 'serializable'
    const isRead = settings.accessMode === 'read only'
    // Without `read write`, which would override the settings of the server or the database.
    const begin = `start transaction isolation level ${level}${isRead ? ' read only' : ''}`
    connection.writer = isRead ? null : (this.#writers?.take() ?? null)
    await connection.run(connection.writer === null ? begin : `${begin}; ${beginWriting(connection.writer)}`)
  }

  async commitTransaction(connection: PostgresConnection): Promise<void> {
    const { writer } = connection
    try {
      await connection.session.query('commit')
    } catch (error) {
      if (!endsSession(error)) throw storageError(error, this.#label)
      connection.session.destroy()
      if (writer === null || this.#writers === null) throw unavailableError(error, this.#label)
      connection.writer = null
      await this.#settle(this.#writers.wasCommitted(writer), error)
    }
  }

  /** A connection that fails to roll back is not used again. Its error must not hide the first one. */
  async rollbackTransaction(connection: PostgresConnection): Promise<void> {
    if (connection.session.isDead) return
    await connection.session.query('rollback').catch(() => connection.session.destroy())
  }

  async releaseConnection(connection: PostgresConnection): Promise<void> {
    if (connection.writer !== null) this.#writers?.release(connection.writer)
    this.#pool.release(connection.session)
  }

  async destroy(): Promise<void> {
    await this.#pool.close()
    this.#writers?.close()
  }

  async #settle(outcome: Promise<boolean | null>, error: unknown): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), outcomeMs)
    })
    const wasCommitted = await Promise.race([outcome, late])
    clearTimeout(timer)
    if (wasCommitted === true) return
    if (wasCommitted === false) throw new WriteConflictError(error)
    throw new UnknownOutcomeError(`metadata: ${this.#label}: a commit was not answered`, outcome, error)
  }
}

/** A primary that became a standby, or whose disk is full. The next connection can reach another server. */
const readOnlyServer = '25006'

const changing = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

class PostgresConnection implements DatabaseConnection {
  readonly session: Session
  /** The writer of the current write transaction. */
  writer: Writer | null = null
  readonly #pool: SessionPool
  readonly #label: string

  constructor(session: Session, pool: SessionPool, label: string) {
    this.session = session
    this.#pool = pool
    this.#label = label
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { command, rowCount, rows } = await this.run(sql, parameters)
    const isChange = changing.has(command)
    return { rows: rows as R[], ...(isChange ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}) }
  }

  async run(text: string, values: readonly unknown[] = []) {
    try {
      return await this.session.query(text, values)
    } catch (error) {
      if (endsSession(error)) this.session.destroy()
      if (sqlState(error) === readOnlyServer) this.#pool.renew()
      throw storageError(error, this.#label)
    }
  }

  // biome-ignore lint/correctness/useYield: nothing here streams.
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error('metadata: results are read whole')
  }
}
