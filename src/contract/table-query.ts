/** Read-only queries on the file of a SQLite destination, and the list of its tables. */
import Type, { type Static } from 'typebox'
import { queryLimits } from './query-limits.ts'
import { resourceLimits } from './resource-limits.ts'
import { closed, count, nullable, string, text } from './schema-parts.ts'

const { rows, seconds } = queryLimits

/** The name of a parameter without its `:`, `@` or `$`. */
const parameterName = Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$' })
const parameterValue = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])

export const TableQuery = Type.Object(
  {
    sql: text(
      resourceLimits.querySqlCharacters,
      'One SELECT, VALUES or WITH … SELECT, or EXPLAIN of one. Parameters are written as `:name`.',
    ),
    params: Type.Optional(
      Type.Record(parameterName, parameterValue, {
        maxProperties: resourceLimits.queryParameters,
        description:
          'The values of the parameters by name. A whole number that JSON parsers would round is sent as a string: a column of type INTEGER compares it as a number.',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: rows.max,
        default: rows.default,
        description: 'The maximum number of rows.',
      }),
    ),
    timeout_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: seconds.max,
        default: seconds.default,
        description: 'After this time the query is stopped.',
      }),
    ),
  },
  closed,
)
export type TableQuery = Static<typeof TableQuery>

const Cell = Type.Union([
  Type.String(),
  Type.Number(),
  Type.Null(),
  Type.Object({ base64: Type.String() }, { description: 'The bytes of a BLOB.' }),
])

export const queryTruncations = ['rows', 'bytes'] as const

export const TableRows = Type.Object({
  columns: Type.Array(
    Type.Object({
      name: string('As in the query. Two columns can have the same name.'),
      type: nullable(string('The type that the table declares. Null for an expression.')),
    }),
  ),
  rows: Type.Array(Type.Array(Cell), {
    description:
      'The values of each row, in the order of `columns`. An INTEGER has all its digits, also beyond 2^53; a REAL has a decimal point or an exponent.',
  }),
  truncated_by: nullable(
    Type.Enum([...queryTruncations], {
      description: `There are more rows. \`rows\`: \`limit\` was reached. \`bytes\`: the response has at most ${resourceLimits.queryResponseBytes} bytes of rows.`,
    }),
  ),
  query_ms: count('The time that the query took, in milliseconds.'),
})
export type TableRows = Static<typeof TableRows>

export const TableList = Type.Object({
  file: string('The name of the file, as in the config of the destination.'),
  tables: Type.Array(
    Type.Object({
      table: string('The name of the table or view.'),
      kind: Type.Enum(['table', 'view']),
      columns: Type.Array(
        Type.Object({ name: Type.String(), type: string('The declared type; empty if there is none.') }),
      ),
    }),
    { description: 'By name. Tables of pipectl and of SQLite itself are left out.' },
  ),
})
export type TableList = Static<typeof TableList>
