/**
 * Proposes a table from records, and creates it on request: the parts that all dialects share. If the database cannot be
 * reached there is still a proposal, for a person who can create the table.
 *
 * Values of a record never become part of a statement. Keys do, as names, through the dialect's quoting function.
 */
import type { TableProposal } from '../../../contract/table-proposal.ts'
import { DeliveryError, type InferRequest, type TableSpec } from '../../driver.ts'
import type { SqlDialect } from '../identifiers.ts'
import { type Observed, observe } from './observe.ts'
import { dedupeFault, type ExistingColumn, type NewColumn, planTable } from './plan.ts'
import type { Server } from './types.ts'

/** A logged-in session. */
export interface InferSession {
  isMariadb: boolean
  columns(): Promise<readonly ExistingColumn[]>
  /** `isAutomatic`: waits for locks only for a moment, and fails instead of copying the table. */
  run(statement: string, isAutomatic: boolean): Promise<void>
  close(): Promise<void>
}

export interface InferDialect {
  dialect: SqlDialect
  open(): Promise<InferSession>
  errorOf(error: unknown): DeliveryError
  /** The quoted name of the table. */
  table: string
  quote(name: string): string
  /** After the type of the primary key's column. */
  primaryKey: string
  /** After the columns of a new table. */
  tableOptions: string
  /** One ALTER TABLE statement adds all columns. */
  addsSeveral: boolean
  /** The code of the error for a table that does not exist. */
  missingTable: string
}

type Step = NonNullable<TableProposal['failure']>['step']

export async function inferTable(
  { config }: TableSpec,
  request: InferRequest,
  dialect: InferDialect,
): Promise<TableProposal> {
  const dedupeKey = request.dedupe.kind === 'key' ? request.dedupe.key : null
  const observed = observe(request.bodies, dedupeKey)
  const work = new Inference(config.table, request, observed, dialect)
  if (observed.records === 0) return work.failed('sample', noRecords)
  const fault = dedupeFault(observed, request, { dialect: dialect.dialect, isMariadb: false })
  if (fault !== null)
    return work.failed('sample', { code: 'unfit_dedupe_key', message: `dedupe_key ${fault}.` })
  let session: InferSession | undefined
  try {
    session = await dialect.open()
    return await work.with(session)
  } catch (error) {
    return work.failed('connect', dialect.errorOf(error))
  } finally {
    await session?.close()
  }
}

const noRecords = {
  code: 'no_records',
  message: 'There are no records to read: send some to the pipe first, or provide a sample.',
}

class Inference {
  readonly #table: string
  readonly #request: InferRequest
  readonly #observed: Observed
  readonly #dialect: InferDialect
  #isMariadb = false
  #existing: readonly ExistingColumn[] | null = null
  #tableExists: boolean | null = null

  constructor(table: string, request: InferRequest, observed: Observed, dialect: InferDialect) {
    this.#table = table
    this.#request = request
    this.#observed = observed
    this.#dialect = dialect
  }

  async with(session: InferSession): Promise<TableProposal> {
    const { createTable, addColumns } = this.#request
    this.#isMariadb = session.isMariadb
    let step: Step = 'table'
    try {
      this.#existing = await session.columns().catch((error: unknown) => {
        if (error instanceof DeliveryError && error.code === this.#dialect.missingTable) return null
        throw error
      })
      this.#tableExists = this.#existing !== null
      const { ddl } = this.#proposal()
      const isAsked = this.#tableExists ? addColumns : createTable
      if (!isAsked || ddl.length === 0) return this.#proposal()
      step = this.#tableExists ? 'add_columns' : 'create_table'
      for (const statement of ddl) await session.run(statement, this.#request.automatic !== undefined)
      return { ...this.#proposal(), executed: ddl, missing_columns: [], table_exists: true }
    } catch (error) {
      return this.failed(step, this.#dialect.errorOf(error))
    }
  }

  failed(step: Step, { code, message }: { code: string; message: string }): TableProposal {
    const isDdl = this.#request.automatic === undefined && ['create_table', 'add_columns'].includes(step)
    const advice = isDdl ? ' Let an administrator run the statements in ddl.' : ''
    return { ...this.#proposal(), ok: false, failure: { step, code, message: `${message}${advice}` } }
  }

  #proposal(): TableProposal {
    const server: Server = { dialect: this.#dialect.dialect, isMariadb: this.#isMariadb }
    const plan = planTable(this.#observed, this.#request, server, this.#existing)
    const { newColumns, ...shown } = plan
    const hasSample = this.#observed.records > 0
    return {
      ok: true,
      failure: null,
      source: this.#request.source,
      records_seen: this.#observed.records,
      table: this.#table,
      table_exists: this.#tableExists,
      ddl: newColumns.length === 0 || !hasSample ? [] : this.#statements(newColumns),
      executed: [],
      ...shown,
    }
  }

  #statements(columns: readonly NewColumn[]): string[] {
    const { table, quote, primaryKey, tableOptions, addsSeveral } = this.#dialect
    const lines = columns.map(
      ({ name, dataType, isPrimaryKey }) =>
        `${quote(name)} ${dataType}${isPrimaryKey ? ` ${primaryKey}` : ''}`,
    )
    if (this.#existing === null)
      return [`CREATE TABLE ${table} (\n  ${lines.join(',\n  ')}\n)${tableOptions}`]
    const added = lines.map((column) => `  ADD COLUMN ${column}`)
    return addsSeveral
      ? [`ALTER TABLE ${table}\n${added.join(',\n')}`]
      : added.map((column) => `ALTER TABLE ${table}\n${column}`)
  }
}
