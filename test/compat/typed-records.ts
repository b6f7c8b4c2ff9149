/** Records with a value for every type of column, the tables that keep them, and what these have to contain afterwards. */

export type Dialect = 'postgresql' | 'mysql' | 'mariadb'

interface Column {
  name: string
  type: Readonly<Record<'postgresql' | 'mysql', string>>
  /** The JSON of the value in record `n`. */
  json(n: number): string
  /** The value as text, as the queries of `readBack` show it. Without it: the JSON without quotes. */
  text?(n: number, dialect: Dialect): string
  /** The query's expression, in place of a conversion to text. */
  shown?: Readonly<Record<'postgresql' | 'mysql', string>>
}

const both = (type: string) => ({ postgresql: type, mysql: type })
const seconds = (n: number) => String(n % 60).padStart(2, '0')
/** What COPY, SQL strings and JSON escape. */
const body = (n: number) => `tab\t"quote" 'it''s' back\\slash \\N\nline ${n} 🫖`
const document = (n: number) => ({ list: [n, 'x', null], text: 'é' })

export const typedColumns: readonly Column[] = [
  { name: 'n', type: both('int'), json: String },
  { name: 'big', type: both('bigint'), json: (n) => `9007199254740${String(n + 100_000).slice(-3)}` },
  {
    name: 'amount',
    type: { postgresql: 'numeric(40,10)', mysql: 'decimal(40,10)' },
    json: (n) => `12345678901234567890${n}.0123456789`,
  },
  { name: 'ratio', type: { postgresql: 'double precision', mysql: 'double' }, json: (n) => String(n / 8) },
  { name: 'small', type: both('smallint'), json: (n) => String(-n) },
  {
    name: 'flag',
    type: both('boolean'),
    json: (n) => String(n % 2 === 0),
    text: (n, dialect) => (dialect === 'postgresql' ? String(n % 2 === 0) : String(1 - (n % 2))),
  },
  { name: 'label', type: both('varchar(40)'), json: (n) => `"label ${n} ü"` },
  { name: 'body', type: both('text'), json: (n) => JSON.stringify(body(n)), text: body },
  {
    name: 'at',
    type: { postgresql: 'timestamptz', mysql: 'datetime(3)' },
    json: (n) => `"2026-03-04T05:06:${seconds(n)}.789+02:00"`,
    text: (n) => `2026-03-04 03:06:${seconds(n)}.789`,
    shown: {
      postgresql: `to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')`,
      mysql: 'cast(at AS char)',
    },
  },
  { name: 'day', type: both('date'), json: (n) => `"2026-01-${String((n % 28) + 1).padStart(2, '0')}"` },
  { name: 'clock', type: both('time'), json: (n) => `"23:59:${seconds(n)}"` },
  {
    name: 'document',
    type: { postgresql: 'jsonb', mysql: 'json' },
    json: (n) => JSON.stringify(document(n)),
  },
  {
    name: 'ref',
    type: { postgresql: 'uuid', mysql: 'char(36)' },
    json: (n) => `"0b5b6bb2-6a0e-4f44-9d5c-${String(n).padStart(12, '0')}"`,
  },
  {
    name: 'kind',
    type: { postgresql: 'text', mysql: "enum('a','b')" },
    json: (n) => (n % 3 ? '"a"' : '"b"'),
  },
]

/** Every seventh has no label and a null instead of a text. */
const isSparse = (n: number) => n % 7 === 0

/** The text of record `n`. With `bad` its number fits into no column. */
export function typedRecord(n: number, { bad = false } = {}): string {
  const members = typedColumns.flatMap(({ name, json }) => {
    if (isSparse(n) && name === 'label') return []
    if (isSparse(n) && name === 'body') return ['"body":null']
    return [`"${name}":${bad && name === 'small' ? '70000' : json(n)}`]
  })
  return `{${members.join(',')}}`
}

const family = (dialect: Dialect) => (dialect === 'postgresql' ? dialect : 'mysql')

/** The definitions of the columns. */
export function columnsOf(dialect: Dialect): string {
  return typedColumns.map(({ name, type }) => `${name} ${type[family(dialect)]} NULL`).join(', ')
}

/** The query whose rows `expectedRow` describes. */
export function readBack(dialect: Dialect, table: string, order: string): string {
  const shown = typedColumns.map((column) => {
    const asText = dialect === 'postgresql' ? `${column.name}::text` : `cast(${column.name} AS char)`
    return `${column.shown?.[family(dialect)] ?? asText} AS ${column.name}`
  })
  return `SELECT ${shown.join(', ')} FROM ${table} ORDER BY ${order}`
}

export function expectedRow(n: number, dialect: Dialect): Record<string, unknown> {
  const entries = typedColumns.map(({ name, json, text }) => {
    if (isSparse(n) && (name === 'label' || name === 'body')) return [name, null]
    if (name === 'document') return [name, document(n)]
    return [name, text === undefined ? json(n).replaceAll('"', '') : text(n, dialect)]
  })
  return Object.fromEntries(entries)
}

/** A row of `readBack`, with its document as a value: servers write JSON with other spaces. */
export function comparable(row: Record<string, unknown>): Record<string, unknown> {
  return { ...row, document: JSON.parse(String(row.document)) }
}
