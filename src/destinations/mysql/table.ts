/** The facts about the destination's table that the driver needs, read from the server's catalog once per connection. */
import type { RowDataPacket } from 'mysql2/promise'
import { DeliveryError } from '../driver.ts'
import type { ColumnKind, MysqlColumn } from './values.ts'

export interface TableDescription {
  database: string
  name: string
  columns: readonly MysqlColumn[]
  /** The columns of each unique key. A part over an expression or a column prefix is null. */
  uniqueKeys: readonly (readonly (string | null)[])[]
  /** False for MyISAM and the like, where a batch cannot be all or nothing. */
  isTransactional: boolean
  /** The server's name for the engine; null for a view. */
  engine: string | null
}

/** Runs one prepared statement and returns its rows. */
export type Select = (sql: string, values?: string[]) => Promise<RowDataPacket[]>

/** Rejects with the permanent `ER_NO_SUCH_TABLE` if there is no such table, or this user has no access to it. */
export async function describeTable(
  select: Select,
  { database, table }: { database: string; table: string },
  isMariadb: boolean,
): Promise<TableDescription> {
  const names = [database, table]
  const columns = await select(
    `SELECT COLUMN_NAME AS name, DATA_TYPE AS kind, COLUMN_TYPE AS type, IS_NULLABLE AS nullable, COLUMN_DEFAULT AS dflt,
       EXTRA AS extra, DATETIME_PRECISION AS fraction, GENERATION_EXPRESSION AS expression
     FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`,
    names,
  )
  if (columns.length === 0)
    throw new DeliveryError(
      'permanent',
      'ER_NO_SUCH_TABLE',
      `Table ${database}.${table} does not exist, or this user has no right to it: create it or grant INSERT.`,
    )
  const jsonColumns = isMariadb ? await jsonColumnsOfMariadb(select, names) : new Set<string>()
  return {
    database,
    name: table,
    columns: columns.map((row) => describeColumn(row, jsonColumns)),
    uniqueKeys: await uniqueKeys(select, names),
    ...((await engineOf(select, names)) ?? { engine: null, isTransactional: true }),
  }
}

/** Names are compared case-insensitively, as the server does. */
export function findColumn(table: TableDescription, name: string): MysqlColumn | undefined {
  const wanted = name.toLowerCase()
  return table.columns.find((column) => column.name.toLowerCase() === wanted)
}

function describeColumn(row: RowDataPacket, jsonColumns: ReadonlySet<string>): MysqlColumn {
  const [name, dataType, extra] = [String(row.name), String(row.kind).toLowerCase(), String(row.extra)]
  const isNotNull = row.nullable !== 'YES'
  const [kind, type] = [kinds[dataType] ?? 'text', String(row.type)]
  return {
    name,
    kind: jsonColumns.has(name.toLowerCase()) ? 'json' : kind,
    type,
    members: kind === 'enum' || kind === 'set' ? membersOf(type) : noMembers,
    timePrecision: Number(row.fraction ?? 0),
    isNotNull,
    hasDefault: hasOwnDefault(row.dflt, isNotNull) || /auto_increment/i.test(extra),
    isGenerated: String(row.expression ?? '') !== '',
  }
}

/** For a nullable column without a default, MariaDB returns the word NULL, while MySQL returns null. */
function hasOwnDefault(columnDefault: unknown, isNotNull: boolean): boolean {
  return columnDefault !== null && (isNotNull || columnDefault !== 'NULL')
}

const noMembers: ReadonlySet<string> = new Set()

/** Parses `enum('a','it''s')`: quotes are doubled; a backslash escapes itself, a line feed (n), a return (r) or a NUL (0). */
function membersOf(type: string): ReadonlySet<string> {
  const plain = (text: string) =>
    text.replace(/''|\\(.)/gs, (found, escaped: string | undefined) =>
      escaped === undefined ? found[0]! : ({ n: '\n', r: '\r', 0: '\0' }[escaped] ?? escaped),
    )
  return new Set([...type.matchAll(/'((?:[^'\\]|''|\\.)*)'/gs)].map(([, text = '']) => plain(text)))
}

const kinds: Record<string, ColumnKind> = {
  tinyint: 'integer',
  smallint: 'integer',
  mediumint: 'integer',
  int: 'integer',
  bigint: 'integer',
  year: 'year',
  bit: 'bit',
  decimal: 'number',
  float: 'float',
  double: 'double',
  datetime: 'datetime',
  timestamp: 'datetime',
  date: 'date',
  time: 'time',
  json: 'document',
  enum: 'enum',
  set: 'set',
  char: 'char',
  binary: 'binary',
}

/**
 * MariaDB's JSON type is LONGTEXT with a check. Without this, the string abc would be bound without its quotes and rejected.
 */
async function jsonColumnsOfMariadb(select: Select, names: string[]): Promise<Set<string>> {
  const checks = await select(
    `SELECT CONSTRAINT_NAME AS name, CHECK_CLAUSE AS clause FROM information_schema.CHECK_CONSTRAINTS
     WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?`,
    names,
  )
  const isJson = (row: RowDataPacket) =>
    String(row.clause).toLowerCase() === `json_valid(\`${String(row.name).toLowerCase()}\`)`
  return new Set(checks.filter(isJson).map((row) => String(row.name).toLowerCase()))
}

async function uniqueKeys(select: Select, names: string[]): Promise<(string | null)[][]> {
  const parts = await select(
    `SELECT INDEX_NAME AS name, COLUMN_NAME AS col, SUB_PART AS prefix FROM information_schema.STATISTICS
     WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
    names,
  )
  const keys = new Map<string, (string | null)[]>()
  for (const part of parts) {
    const columns = keys.get(String(part.name)) ?? []
    columns.push(part.prefix === null && part.col !== null ? String(part.col) : null)
    keys.set(String(part.name), columns)
  }
  return [...keys.values()]
}

/** Null if there is no such table, or this user has no access to it. A view has no engine and is not rejected. */
export async function engineOf(
  select: Select,
  names: string[],
): Promise<Pick<TableDescription, 'isTransactional' | 'engine'> | null> {
  const [row] = await select(
    `SELECT t.ENGINE AS engine, e.TRANSACTIONS AS answer FROM information_schema.TABLES t
     LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ?`,
    names,
  )
  if (row === undefined) return null
  const engine = typeof row.engine === 'string' ? row.engine : null
  return { engine, isTransactional: engine === null || row.answer === 'YES' }
}
