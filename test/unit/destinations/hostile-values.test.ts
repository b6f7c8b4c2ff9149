/**
 * Records come from strangers: 344 bytes of gzip can hold a megabyte of spaces, and whoever takes quadratic time over
 * them stops delivery for everybody. Every function of a driver that looks into a record must take linear time.
 */
import t from 'tap'
import { decimalOf, endOfDigits, fitsFloat, trimmed } from '../../../src/destinations/decimal-text.ts'
import { batchBody, recordBodies } from '../../../src/destinations/http-endpoint/driver.ts'
import { calendarText, timeText } from '../../../src/destinations/mysql/calendar-text.ts'
import { rowsOf } from '../../../src/destinations/mysql/rows.ts'
import { planInsert } from '../../../src/destinations/mysql/statement.ts'
import type { TableDescription } from '../../../src/destinations/mysql/table.ts'
import { type ColumnKind, type MysqlColumn, parameterOf } from '../../../src/destinations/mysql/values.ts'
import { objectOf } from '../../../src/destinations/object-store/body.ts'
import {
  recordsParameter,
  rulesByName,
  withMappedKeysOnly,
} from '../../../src/destinations/postgresql/statement.ts'
import type { Table } from '../../../src/destinations/postgresql/table.ts'
import {
  boundValue,
  type SqliteColumn,
  type ColumnKind as SqliteKind,
} from '../../../src/destinations/sqlite/values.ts'
import { makeBatch, makeSpec } from '../../support/batches.ts'

const kinds: ColumnKind[] = [
  ...(['integer', 'bit', 'year', 'number', 'float', 'double', 'datetime', 'date', 'time'] as const),
  ...(['json', 'document', 'enum', 'set', 'char', 'binary', 'text'] as const),
]

/** Texts of `size` characters that a pattern with two ways to match would try again and again. */
const hostileTexts: Record<string, (size: number) => string> = {
  spaces: (size) => ' '.repeat(size),
  'spaces and a letter': (size) => `${' '.repeat(size)}x`,
  zeros: (size) => '0'.repeat(size),
  'zeros and a one': (size) => `1${'0'.repeat(size)}1`,
  'zeros of a fraction': (size) => `0.${'0'.repeat(size)}1`,
  'zeros and a letter': (size) => `0.${'0'.repeat(size)}x`,
  digits: (size) => '7'.repeat(size),
  'digits of an exponent': (size) => `1e${'7'.repeat(size)}`,
  'digits of a second': (size) => `2026-01-02T03:04:05.${'7'.repeat(size)}Z`,
  'digits of a second of a day': (size) => `03:04:05.${'0'.repeat(size)}x`,
  'digits of a second and a letter': (size) => `2026-01-02T03:04:05.${'7'.repeat(size)}x`,
  quotes: (size) => '"'.repeat(size),
  'single quotes': (size) => "'".repeat(size),
  backslashes: (size) => '\\'.repeat(size),
  'backslashes and quotes': (size) => '\\"'.repeat(size / 2),
}
/** The same as JSON numbers, where that is one. */
const hostileNumbers: Record<string, (size: number) => string> = {
  'zeros and a one': (size) => `1${'0'.repeat(size)}1`,
  'zeros of a fraction': (size) => `0.${'0'.repeat(size)}1`,
  digits: (size) => '7'.repeat(size),
  'digits of an exponent': (size) => `1e${'7'.repeat(size)}`,
}

const smallSize = 100_000
const largeSize = 1_000_000

/** The quickest of several runs, in ms: what else the machine does only adds. */
function minTime(work: () => unknown): number {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < 5; run++) {
    const start = performance.now()
    try {
      work()
    } catch (error) {
      if (!(error instanceof Error)) throw error
    }
    least = Math.min(least, performance.now() - start)
  }
  return least
}

/** Ten times the text in about ten times the time; quadratic would be a hundred. Below the floor nothing can be told. */
function isLinear(work: (size: number) => () => unknown): boolean {
  const floorMs = 0.3
  // Several tries: what interrupts each run of the larger size alone (a collection of garbage, a busy machine) looks like
  // growth.
  return [1, 2, 3, 4, 5, 6].some(() => {
    const small = Math.max(floorMs, minTime(work(smallSize)))
    return minTime(work(largeSize)) < 45 * small
  })
}

const column = (kind: ColumnKind): MysqlColumn => ({
  name: 'v',
  kind,
  type: kind === 'enum' ? "enum('a','b')" : kind,
  members: new Set(['a', 'b']),
  timePrecision: 6,
  isNotNull: false,
  hasDefault: true,
  isGenerated: false,
})

t.test('negative control: a backtracking pattern is seen', async (t) => {
  const pattern = /^\s*[0-9]*\s*$/
  const work = (size: number) => {
    const text = `${' '.repeat(size / 100)}x`
    return () => pattern.test(text)
  }
  t.notOk(isLinear(work))
})

t.test('MySQL: every kind of column takes or rejects any text and number in linear time', async (t) => {
  for (const kind of kinds) {
    for (const [name, make] of Object.entries(hostileTexts)) {
      const work = (size: number) => {
        const json = JSON.stringify(make(size))
        return () => parameterOf(json, column(kind))
      }
      t.ok(isLinear(work), `${kind}: ${name}`)
    }
    for (const [name, make] of Object.entries(hostileNumbers)) {
      const work = (size: number) => {
        const json = make(size)
        return () => parameterOf(json, column(kind))
      }
      t.ok(isLinear(work), `${kind}: the number of ${name}`)
    }
  }
})

t.test('SQLite: every kind of column takes or rejects any text and number in linear time', async (t) => {
  const sqliteKinds: SqliteKind[] = ['integer', 'real', 'numeric', 'text', 'blob', 'any']
  for (const kind of sqliteKinds) {
    const { name, ...facts } = column('text')
    const of: SqliteColumn = { ...facts, name, kind }
    for (const [what, make] of Object.entries(hostileTexts)) {
      const work = (size: number) => {
        const json = JSON.stringify(make(size))
        return () => boundValue(json, of)
      }
      t.ok(isLinear(work), `${kind}: ${what}`)
    }
    for (const [what, make] of Object.entries(hostileNumbers)) {
      const work = (size: number) => {
        const json = make(size)
        return () => boundValue(json, of)
      }
      t.ok(isLinear(work), `${kind}: the number of ${what}`)
    }
  }
})

t.test('MySQL: the scans themselves are linear, whatever the limit of length keeps from them', async (t) => {
  const scans: Record<string, (text: string) => unknown> = {
    decimalOf,
    fitsFloat: (text) => fitsFloat(text, 64),
    trimmed,
    endOfDigits: (text) => endOfDigits(text, 0, text.length),
    calendarText: (text) => calendarText(text, column('datetime')),
    timeText: (text) => timeText(text, column('time')),
  }
  for (const [scan, run] of Object.entries(scans)) {
    for (const [name, make] of Object.entries(hostileTexts)) {
      const work = (size: number) => {
        const text = make(size)
        return () => run(text)
      }
      t.ok(isLinear(work), `${scan}: ${name}`)
    }
  }
})

t.test('every driver makes its statement or body of such records in linear time', async (t) => {
  const mysqlTable: TableDescription = {
    database: 'd',
    name: 't',
    columns: [column('text')],
    uniqueKeys: [],
    isTransactional: true,
    engine: 'InnoDB',
  }
  const plan = planInsert(mysqlTable, [], 'ingest_ts')
  const table: Table = {
    name: '"t"',
    schema: 'public',
    isForeign: false,
    copyObstacle: null,
    columns: [
      {
        name: 'v',
        type: 'text',
        category: 'S',
        isJson: false,
        isNotNull: false,
        defaultSql: null,
        hasDefault: false,
        isGenerated: false,
        isPlain: true,
      },
    ],
  }
  const httpSpec = (body_format: string) =>
    makeSpec('destination_http_endpoint', { url: 'http://127.0.0.1:9', body_format })
  type HostileBatch = ReturnType<typeof makeBatch>
  const spec = makeSpec('destination_object_store', { bucket: 'b', compression: 'none' })
  const makers: Record<string, (batch: HostileBatch) => unknown> = {
    'MySQL rows': (batch) => [...rowsOf(batch, plan)],
    'PostgreSQL rulesByName': ({ messages }) => rulesByName(table, messages),
    'PostgreSQL recordsParameter': ({ messages }) =>
      recordsParameter(messages, [
        { name: 'v', type: 'string', source: { kind: 'key', key: 'v' }, isDedupe: false },
        { name: 'w', type: 'string', source: { kind: 'received_at' }, isDedupe: false },
      ]),
    'PostgreSQL withMappedKeysOnly': ({ messages }) =>
      withMappedKeysOnly(messages, [
        { name: 'v', type: 'string', source: { kind: 'key', key: 'v' }, isDedupe: false },
      ]),
    ...Object.fromEntries(
      (['json_array', 'ndjson', 'es_bulk', 'loki'] as const).map((format) => [
        `HTTP ${format}`,
        (batch: HostileBatch) => batchBody(batch, httpSpec(format)),
      ]),
    ),
    'HTTP json_object': (batch) => [...recordBodies(batch, httpSpec('json_object'))],
    'HTTP slack': (batch) => [...recordBodies(batch, httpSpec('slack'))],
    'object store': (batch) => objectOf(batch, spec),
  }
  const hostileRecords: Record<string, (size: number) => string> = {
    ...Object.fromEntries(
      Object.entries(hostileTexts).map(([name, make]) => [
        name,
        (size: number) => JSON.stringify({ v: make(size) }),
      ]),
    ),
    'white space between members': (size) =>
      `{${' '.repeat(size)}"v"${' '.repeat(size)}:1${' '.repeat(size)}}`,
    'an empty record of spaces': (size) => `{${' '.repeat(size)}}`,
    'a key of backslashes': (size) => `{"${'\\\\'.repeat(size / 2)}":1,"v":2}`,
    'many keys': (size) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: size / 20 }, (_, n) => [`k${n}`, n]))),
    'many closing braces': (size) => `{"v":"${'}'.repeat(size)}"}`,
    'deep arrays': (size) => `{"v":${'['.repeat(size / 2)}${']'.repeat(size / 2)}}`,
  }
  for (const [maker, make] of Object.entries(makers)) {
    for (const [name, record] of Object.entries(hostileRecords)) {
      const work = (size: number) => {
        const batch = makeBatch([[record(size)]])
        return () => make(batch)
      }
      t.ok(isLinear(work), `${maker}: ${name}`)
    }
  }
})
