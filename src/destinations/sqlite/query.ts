/** One read-only query on a SQLite file, and its result as JSON text. Runs in a process of its own: `query-processes.ts`. */
import type Database from 'better-sqlite3'
import { errorCode, messageOf } from '../../platform/error-code.ts'
import { notAQuery, queryFault } from './read-only-sql.ts'

export interface QueryInput {
  sql: string
  params: Readonly<Record<string, string | number | boolean | null>>
  maxRows: number
  maxBytes: number
}

/** Why a query has no result. `sql`: its text is at fault, or a value. */
export type QueryFault = 'sql' | 'memory' | 'locked' | 'unreadable'

export class QueryFaultError extends Error {
  readonly reason: QueryFault

  constructor(reason: QueryFault, message: string) {
    super(message)
    this.name = 'QueryFaultError'
    this.reason = reason
  }
}

/** Returns the JSON text of `{columns, rows, truncated_by, query_ms}`. Throws QueryFaultError. */
export function runQuery(database: Database.Database, input: QueryInput): string {
  const startedAt = performance.now()
  try {
    const statement = prepare(database, input.sql)
    const columns = statement.columns().map(({ name, type }) => ({ name, type }))
    const { rows, truncatedBy } = readRows(statement, input)
    const head = JSON.stringify({ columns }).slice(0, -1)
    const tail = JSON.stringify({
      truncated_by: truncatedBy,
      query_ms: Math.round(performance.now() - startedAt),
    })
    return `${head},"rows":[${rows.join(',')}],${tail.slice(1)}`
  } catch (error) {
    throw asFault(error)
  }
}

/** Closes the gaps that a read-only connection leaves. */
export function restrict(database: Database.Database): void {
  // Sorting and temporary tables stay in memory, which is limited, instead of files, which are not.
  database.pragma('temp_store = MEMORY')
  database.pragma('query_only = ON')
  database.pragma('trusted_schema = OFF')
  database.pragma('cell_size_check = ON')
  // The built-in one shows where the data directory is.
  database.table('pragma_database_list', { columns: ['seq', 'name', 'file'], *rows() {} })
  // With a bound parameter the built-in one returns an address of code, and takes another: SQLite checks only where the value
  // comes from. Both numbers of arguments are separate functions.
  database.function('fts3_tokenizer', (_name) => notAvailable())
  database.function('fts3_tokenizer', (_name, _address) => notAvailable())
}

function notAvailable(): never {
  throw new QueryFaultError('sql', 'this function is not available in a query')
}

function prepare(database: Database.Database, sql: string): Database.Statement {
  const fault = queryFault(sql)
  if (fault !== null) throw new QueryFaultError('sql', fault)
  const statement = database.prepare(sql)
  // `WITH … DELETE … RETURNING` begins like a query.
  if (!statement.reader || !statement.readonly) throw new QueryFaultError('sql', notAQuery)
  return statement
}

function readRows(statement: Database.Statement, { params, maxRows, maxBytes }: QueryInput) {
  const rows: string[] = []
  let bytes = 0
  for (const row of statement.raw().safeIntegers().iterate(boundValues(params))) {
    if (rows.length === maxRows) return { rows, truncatedBy: 'rows' as const }
    const text = rowText(row as unknown[], maxBytes - bytes)
    if (text === null) return { rows, truncatedBy: 'bytes' as const }
    bytes += Buffer.byteLength(text) + 1
    if (bytes > maxBytes) return { rows, truncatedBy: 'bytes' as const }
    rows.push(text)
  }
  return { rows, truncatedBy: null }
}

/** Whole numbers are bound as INTEGER, not as REAL: `1 / 2` is 0, as in the text of a statement. */
function boundValues(params: QueryInput['params']): Record<string, string | number | bigint | null> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      if (typeof value === 'boolean') return [name, value ? 1n : 0n]
      return [name, typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value]
    }),
  )
}

/** Null: it is longer than `maxCharacters`. A large value is never copied. */
function rowText(row: readonly unknown[], maxCharacters: number): string | null {
  const cells: string[] = []
  let characters = 0
  for (const value of row) {
    const size = typeof value === 'string' || Buffer.isBuffer(value) ? value.length : 0
    if (characters + size > maxCharacters) return null
    const cell = cellText(value)
    characters += cell.length + 1
    cells.push(cell)
  }
  return `[${cells.join(',')}]`
}

function cellText(value: unknown): string {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number') return realText(value)
  if (Buffer.isBuffer(value)) return JSON.stringify({ base64: value.toString('base64') })
  return JSON.stringify(value)
}

/** With a decimal point or an exponent, so that a REAL looks different from an INTEGER. SQLite has no NaN. */
function realText(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? '9e999' : '-9e999'
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /^-?\d+$/.test(text) ? `${text}.0` : text
}

function asFault(error: unknown): QueryFaultError {
  if (error instanceof QueryFaultError) return error
  const code = errorCode(error) ?? ''
  const message = messageOf(error)
  if (code.startsWith('SQLITE_NOMEM')) return new QueryFaultError('memory', message)
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) return new QueryFaultError('locked', message)
  if (/^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|PROTOCOL)/.test(code))
    return new QueryFaultError('unreadable', message)
  return new QueryFaultError('sql', message)
}
