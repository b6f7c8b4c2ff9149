/**
 * Kysely's dialect over PostgreSQL. What its columns need otherwise than SQLite's is decided here, where a table is made, so
 * that a migration is one text for both:
 *
 *   integer   bigint: SQLite's are of 64 bits
 *   text      with the order of bytes, whatever the database's locale: as SQLite sorts and compares
 */
import {
  type ColumnDefinitionNode,
  CompiledQuery,
  type DatabaseConnection,
  type DataTypeNode,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from 'kysely'
import { endsSession, storageError } from './errors.ts'
import type { SessionPool } from './pool.ts'
import type { Session } from './session.ts'

/** `label`: for messages. */
export function postgresDialect(pool: SessionPool, label: string): Dialect {
  return {
    createDriver: () => new PostgresDriver(pool, label),
    createQueryCompiler: () => new PortableCompiler(),
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
  }
}

class PortableCompiler extends PostgresQueryCompiler {
  #isColumn = false

  protected override visitColumnDefinition(node: ColumnDefinitionNode): void {
    this.#isColumn = true
    super.visitColumnDefinition(node)
  }

  /** The first type within a definition is the column's own; elsewhere (CAST) a type stays as it is. */
  protected override visitDataType(node: DataTypeNode): void {
    const type = this.#isColumn ? columnTypes[node.dataType] : undefined
    this.#isColumn = false
    if (type === undefined) super.visitDataType(node)
    else this.append(type)
  }
}

const columnTypes: Partial<Record<string, string>> = { integer: 'bigint', text: 'text collate "C"' }

class PostgresDriver implements Driver {
  readonly #pool: SessionPool
  readonly #label: string

  constructor(pool: SessionPool, label: string) {
    this.#pool = pool
    this.#label = label
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PostgresConnection> {
    try {
      return new PostgresConnection(await this.#pool.acquire(), this.#label)
    } catch (error) {
      throw storageError(error, this.#label)
    }
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const level = settings.isolationLevel ?? 'serializable'
    const access = settings.accessMode ?? 'read write'
    await connection.executeQuery(CompiledQuery.raw(`start transaction isolation level ${level}, ${access}`))
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  /** A connection that fails to roll back is not used again; its error would hide the first one. */
  async rollbackTransaction(connection: PostgresConnection): Promise<void> {
    await connection.rollback()
  }

  async releaseConnection(connection: PostgresConnection): Promise<void> {
    this.#pool.release(connection.session)
  }

  async destroy(): Promise<void> {
    await this.#pool.close()
  }
}

const changing = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

class PostgresConnection implements DatabaseConnection {
  readonly session: Session
  readonly #label: string

  constructor(session: Session, label: string) {
    this.session = session
    this.#label = label
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    try {
      const { command, rowCount, rows } = await this.session.query(sql, parameters)
      const isChange = changing.has(command)
      return { rows: rows as R[], ...(isChange ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}) }
    } catch (error) {
      if (endsSession(error)) this.session.destroy()
      throw storageError(error, this.#label)
    }
  }

  async rollback(): Promise<void> {
    if (this.session.isDead) return
    await this.session.query('rollback').catch(() => this.session.destroy())
  }

  // biome-ignore lint/correctness/useYield: nothing here streams.
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error('metadata: results are read whole')
  }
}
