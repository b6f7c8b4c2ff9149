/** Tables proposed from records, on real servers: whatever a column was proposed for is stored by it and read back the same. */
import '../buffer/typescript-workers.ts'
import t from 'tap'
import { resolvedConfig } from '../../../src/contract/destinations/config-field.ts'
import { database as databaseType } from '../../../src/contract/destinations/database.fields.ts'
import { sqlite as sqliteType } from '../../../src/contract/destinations/sqlite.fields.ts'
import type { TableProposal } from '../../../src/contract/table-proposal.ts'
import type {
  DatabaseSpec,
  DestinationDriver,
  InferRequest,
  SqliteSpec,
} from '../../../src/destinations/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { sqlite } from '../../../src/destinations/sqlite/driver.ts'
import { anyKey, makeBatch } from '../../support/batches.ts'
import { validValues } from '../../support/json-cases.ts'
import { canonical, canonicalNumber } from '../../support/json-equal.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startPostgres } from '../../support/postgres.ts'
import { generator } from '../../support/random-json.ts'
import { startTableFile, workspaceId } from '../../support/table-file.ts'

const pg = await startPostgres()
t.teardown(() => pg.stop())
const maria = await startMariadb()
t.teardown(() => maria.stop())
const settings = { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' as const } }
const file = startTableFile()
t.teardown(() => file.stop())
const never = new AbortController().signal
const servers = {
  postgresql: { server: pg, module: postgresql, quote: '"' },
  mysql: { server: maria, module: mysql, quote: '`' },
} as const
type ServerDialect = keyof typeof servers
type Dialect = ServerDialect | 'sqlite'
const dialects = ['postgresql', 'mysql', 'sqlite'] as const
const quotes = { postgresql: '"', mysql: '`', sqlite: '"' }

const query = async (dialect: Dialect, sql: string): Promise<Record<string, unknown>[]> =>
  dialect === 'sqlite' ? file.query(sql) : await servers[dialect].server.query(sql)

function specOf(dialect: ServerDialect, table: string, config: object = {}): DatabaseSpec {
  const { host, port, user: username, password, database } = servers[dialect].server
  return {
    ...{ destinationId: 'd', pipeId: 'p', pipeName: 'orders', type: 'destination_database' },
    ...{ columns: [], timestampField: 'ingest_ts' },
    config: resolvedConfig(databaseType.fields, {
      host,
      port,
      username,
      password,
      database,
      table,
      dialect,
      ...config,
    }),
  }
}

function fileSpec(table: string, config: object = {}): SqliteSpec {
  return {
    ...{ destinationId: 'd', pipeId: 'p', pipeName: 'orders', type: 'destination_sqlite', workspaceId },
    ...{ columns: [], timestampField: 'ingest_ts' },
    config: resolvedConfig(sqliteType.fields, { file: file.file, table, ...config }),
  }
}

async function infer(
  dialect: Dialect,
  table: string,
  records: readonly (object | string)[],
  options: Partial<InferRequest> = {},
  config: object = {},
): Promise<TableProposal> {
  const texts = records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record)))
  const request: InferRequest = {
    ...{ bodies: [Buffer.from(texts.join('\n'))], source: 'sample', enriched: [], keys: null },
    ...{ createTable: false, addColumns: false, dedupe: { kind: 'generated' }, ...options },
  }
  if (dialect === 'sqlite') return await sqlite.infer!(fileSpec(table, config), file.settings, never, request)
  return await servers[dialect].module.infer!(specOf(dialect, table, config), settings, never, request)
}

async function deliver(dialect: Dialect, table: string, proposal: TableProposal, records: readonly string[]) {
  const driver = openFor(dialect, table, proposal)
  await driver.deliver(makeBatch([records]), never)
  await driver.close()
}

function openFor(dialect: Dialect, table: string, { columns }: TableProposal): DestinationDriver {
  if (dialect === 'sqlite') return sqlite.open({ ...fileSpec(table), columns }, file.settings, anyKey)
  return servers[dialect].module.open({ ...specOf(dialect, table), columns }, settings, anyKey)
}

const typeOf = ({ observations }: TableProposal, key: string) =>
  observations.find((one) => one.key === key)?.proposed_type

t.test('types by what the records hold', async (t) => {
  const cases: [values: string[], postgresql: string | null, mysql: string | null, sqlite: string | null][] =
    [
      [['1', '-5', 'null'], 'bigint', 'bigint', 'INTEGER'],
      [['9223372036854775807', '-9223372036854775808'], 'bigint', 'bigint', 'INTEGER'],
      [['9223372036854775808'], 'numeric', 'decimal(65,0)', 'TEXT'],
      [['12345678901234567890', '1.10'], 'numeric', 'decimal(65,10)', 'TEXT'],
      [['1.0'], 'numeric', 'decimal(65,0)', 'REAL'],
      [['1e3'], 'numeric', 'decimal(65,0)', 'TEXT'],
      [['0.0000000000000000000000000000001'], 'numeric', 'longtext', 'TEXT'],
      [['1e400'], 'numeric', 'longtext', 'TEXT'],
      [['1e4000'], 'text', 'longtext', 'TEXT'],
      [['9'.repeat(1001)], 'text', 'longtext', 'TEXT'],
      [['true', 'false'], 'boolean', 'boolean', 'INTEGER'],
      [
        ['"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.123456+00:00"'],
        'timestamptz',
        'datetime(6)',
        'TEXT',
      ],
      [['"2026-01-02T03:04+02:00"'], 'timestamptz', 'varchar(64)', 'TEXT'],
      [['"2026-01-02T03:04:05.1234567Z"'], 'text', 'longtext', 'TEXT'],
      [['"2026-01-02T03:04:05"'], 'text', 'longtext', 'TEXT'],
      [['"2026-02-30T03:04:05Z"'], 'text', 'longtext', 'TEXT'],
      [['"0000-01-01"'], 'text', 'longtext', 'TEXT'],
      [['"2024-02-29"'], 'date', 'date', 'TEXT'],
      [['"2024-02-29"', '"2024-02-29T00:00:00Z"'], 'text', 'longtext', 'TEXT'],
      [['"0b5b6bb2-6a0e-4f44-9d5c-2b8f1f1f0a01"'], 'uuid', 'char(36)', 'TEXT'],
      [['"0B5B6BB2-6A0E-4F44-9D5C-2B8F1F1F0A01"'], 'text', 'longtext', 'TEXT'],
      [['"a"', '""'], 'text', 'longtext', 'TEXT'],
      [['null'], 'text', 'longtext', 'TEXT'],
      [['{"a":1}', '[1]'], 'jsonb', 'json', 'TEXT'],
      [['{"a":1e40000}'], 'json', 'json', 'TEXT'],
      [['1', '"a"'], 'jsonb', 'json', 'TEXT'],
      [['true', '1'], 'jsonb', 'json', 'TEXT'],
      [['"a\\u0000"'], null, 'longtext', 'TEXT'],
      [['{"a":["\\u0000"]}'], null, 'json', 'TEXT'],
      [['"\\\\u0000"'], 'text', 'longtext', 'TEXT'],
      [['"\\ud800"'], null, null, null],
      [['"\\ud83d\\ude00"'], 'text', 'longtext', 'TEXT'],
    ]
  const records = cases.flatMap(([values], place) => values.map((value) => `{"k${place}":${value}}`))
  for (const dialect of dialects) {
    const proposal = await infer(dialect, 'none', records)
    t.equal(proposal.ok, true)
    t.equal(proposal.table_exists, false, dialect)
    cases.forEach(([values, postgresql, mysql, sqlite], place) => {
      t.equal(typeOf(proposal, `k${place}`), { postgresql, mysql, sqlite }[dialect], `${dialect} ${values}`)
    })
  }
})

/** Compares the value that the column returns with the record's own text, as `text` reads it. */
function sameValue(dialect: Dialect, type: string, json: string | undefined, stored: string | null): boolean {
  if (json === undefined || json === 'null') return stored === null
  if (stored === null) return false
  if (type === 'INTEGER' && (json === 'true' || json === 'false'))
    return stored === (json === 'true' ? '1' : '0')
  if (/^(bigint|numeric|decimal|INTEGER|REAL)/.test(type))
    return canonicalNumber(stored) === canonicalNumber(json)
  if (type === 'json' || type === 'jsonb') return canonical(stored) === canonical(json)
  if (type === 'boolean') return stored === (dialect === 'mysql' ? (json === 'true' ? '1' : '0') : json)
  const text = json.startsWith('"') ? String(JSON.parse(json)) : json
  if (type === 'timestamptz' || type === 'datetime(6)') return micros(stored) === micros(text)
  return stored === text
}

function micros(text: string): string {
  const [, day, time, , fraction = '', zone = ''] =
    /^(\S+?)[T ](\d\d:\d\d(:\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d(?::\d\d)?)?$/.exec(text) ?? []
  const offset = zone.length === 3 ? `${zone}:00` : zone || 'Z'
  const seconds = Date.parse(`${day}T${time?.length === 5 ? `${time}:00` : time}${offset}`) / 1000
  return `${seconds}.${fraction.padEnd(6, '0')}`
}

const pools: string[][] = [
  ['1', '0', '-7', '123', '-0'],
  ['9223372036854775807', '12345678901234567890', '-1'],
  ['1.10', '0.0', '-1.10E-07', '1e5', '3'],
  ['1e400', '-1e400', '1e-400', '1E+05'],
  ['true', 'false'],
  ['"2026-01-02T03:04:05Z"', '"1999-12-31T23:59:59.9Z"', '"2026-06-01T00:00:00.000001+00:00"'],
  ['"2026-01-02T03:04:05+05:45"', '"1001-12-31T23:59Z"', '"9998-06-01T00:00:00.5-14:00"'],
  ['"2024-02-29"', '"9998-12-31"'],
  ['"0b5b6bb2-6a0e-4f44-9d5c-2b8f1f1f0a01"', '"ffffffff-ffff-ffff-ffff-ffffffffffff"'],
  ['"a "', '" a"', '""', '"A"', '"東京 😀"', '"\\u0041\\n"', '"null"', '"1"'],
  ['{"b":1,"a":[1.10,12345678901234567890]}', '{}', '{"a":"\\"}{"}'],
  ['[]', '[[1],{"x":null}]'],
  ['1', '"1"', 'true', '{"a":1}'],
  ['null'],
  [...validValues],
]

t.test('every value of a sample comes back the same from the proposed table', async (t) => {
  for (const dialect of dialects) {
    const quote = quotes[dialect]
    for (let seed = 1; seed <= 12; seed++) {
      const random = generator(seed)
      const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
      const keys = Array.from({ length: 30 }, (_, place) => ({
        key: `k${place}`,
        // Two of the corpus of odd values at most in one column: with more all columns would be mixed.
        pool: place % 3 === 0 ? [pick(validValues), pick(validValues)] : pick(pools),
      }))
      const rows = Array.from({ length: 8 }, () =>
        keys.map(({ pool }) => (random() < 0.15 ? undefined : random() < 0.1 ? 'null' : pick(pool))),
      )
      const records = rows.map((values, n) => {
        const members = values.flatMap((value, place) =>
          value === undefined ? [] : [`"k${place}":${value}`],
        )
        return `{${[`"n":${n}`, ...members].join(',')}}`.replace(/[\r\n]/g, ' ')
      })
      const table = `kept${seed}`
      const proposal = await infer(dialect, table, records, { createTable: true })
      t.same(proposal.failure, null, proposal.ddl.join())
      t.equal(proposal.executed.length, 1)
      await deliver(dialect, table, proposal, records)
      const mapped = proposal.observations.filter(({ column_name }) => column_name !== null)
      const as = dialect === 'mysql' ? 'CHAR' : 'text'
      const list = mapped.map(
        ({ column_name: name }) => `CAST(${quote}${name}${quote} AS ${as}) AS ${quote}${name}${quote}`,
      )
      if (dialect === 'postgresql') await query(dialect, "SET timezone = 'UTC'")
      const stored = await query(dialect, `SELECT ${list.join(', ')} FROM ${table}`)
      t.equal(stored.length, rows.length)
      for (const row of stored) {
        const values = rows[Number(row.n)]!
        for (const { key, proposed_type } of mapped.filter((one) => one.key !== 'n')) {
          const json = values[Number(key.slice(1))]
          const text = row[key] === null ? null : String(row[key])
          if (!sameValue(dialect, proposed_type!, json?.replace(/[\r\n]/g, ' '), text))
            t.fail(`${dialect} seed ${seed} ${key} ${proposed_type}: ${json} came back as ${text}`)
        }
      }
      for (const { key, reason } of proposal.observations.filter(({ column_name }) => column_name === null))
        t.match(reason, /NUL|surrogate/, key)
    }
  }
})

t.test('keys that no statement and no terminal should meet', async (t) => {
  const injected = `x"; DROP TABLE victims; --`
  const keys = [
    ...[
      injected,
      "x'); --",
      'x`; DROP TABLE victims; -- `',
      '\\',
      '%',
      '?',
      '$1',
      ':a',
      '/*',
      'a.b',
      ' a ',
      ' ',
      '\t',
    ],
    ...[
      'nul\u0000',
      'a\nb',
      '\u202eright',
      'שלום',
      '😀',
      '__proto__',
      'constructor',
      'toString',
      'select',
      'xmin',
    ],
    ...[
      'ID',
      'id',
      'Id',
      'é',
      'É',
      `${'ü'.repeat(40)}1`,
      `${'ü'.repeat(40)}2`,
      'a'.repeat(70),
      `${'a'.repeat(70)}b`,
    ],
    ...['_pipectl_id', '', 'y'.repeat(1000), 'z'.repeat(1001), 'w'.repeat(1024 * 1024)],
  ]
  const record = `{${keys.map((key, place) => `${JSON.stringify(key)}:"v${place}"`).join(',')}}`
  for (const dialect of dialects) {
    const quote = quotes[dialect]
    await query(dialect, 'CREATE TABLE victims (a int)')
    const proposal = await infer(dialect, 'hostile', [record], { createTable: true })
    t.same(proposal.failure, null)
    t.same(await query(dialect, 'SELECT * FROM victims'), [], 'the other table is there')
    t.match(proposal.warnings.join(), /more than 1000 characters/)
    const left = proposal.observations.filter(({ column_name }) => column_name === null).map(({ key }) => key)
    t.same(left, dialect === 'postgresql' ? ['nul\u0000', ''] : [''])
    const names = proposal.columns.map(({ column_name }) => column_name)
    t.equal(
      new Set(names.map((name) => (dialect === 'mysql' ? name.toLowerCase() : name))).size,
      names.length,
    )
    t.ok(names.every((name) => !/[\p{Cc}\p{Cf}]/u.test(name)))
    await deliver(dialect, 'hostile', proposal, [record])
    const mapped = proposal.observations.filter(({ column_name }) => column_name !== null)
    const quoted = (name: string) => `${quote}${name.replaceAll(quote, quote + quote)}${quote}`
    const list = mapped.map(({ column_name }, place) => `${quoted(column_name!)} AS v${place}`)
    const [row = {}] = await query(dialect, `SELECT ${list.join(', ')} FROM hostile`)
    mapped.forEach(({ key }, place) => {
      t.equal(row[`v${place}`], `v${keys.indexOf(key)}`, JSON.stringify(key.slice(0, 40)))
    })
  }
})

t.test('one key that cannot be a name by itself', async (t) => {
  for (const dialect of dialects) {
    for (const [place, key] of ['a\nb', ' ', '\u202e'].entries()) {
      const record = JSON.stringify({ [key]: 'v' })
      const proposal = await infer(dialect, `odd${place}`, [record], { createTable: true })
      await deliver(dialect, `odd${place}`, proposal, [record])
      const [row = {}] = await query(dialect, `SELECT * FROM odd${place}`)
      t.equal(Object.values(row)[1], 'v', `${dialect} ${JSON.stringify(key)}`)
    }
  }
})

t.test('ten thousand keys, and records too many or too large', async (t) => {
  const wide = JSON.stringify(Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n])))
  for (const [dialect, most] of [
    ['postgresql', 200],
    ['mysql', 150],
  ] as const) {
    const values = Array.from({ length: 10_000 }, (_, n) => [`k${n}`, `text ${n}`])
    const proposal = await infer(dialect, 'wide', [JSON.stringify(Object.fromEntries(values))], {
      createTable: true,
    })
    t.same(proposal.failure, null, 'the server takes as many columns of the largest type')
    t.equal(proposal.columns.length, most)
    t.equal(proposal.observations.length, 1000)
    // One column is the generated id.
    t.match(proposal.warnings.join(), new RegExp(`more than 1000 keys.*${1000 - most + 1} of the keys`))
    t.match(proposal.observations.at(-1)?.reason, /at most/)
  }
  const many = await infer(
    'postgresql',
    'none',
    Array.from({ length: 1500 }, (_, n) => ({ n })),
  )
  t.equal(many.records_seen, 1000)
  const large = await infer(
    'postgresql',
    'none',
    Array.from({ length: 20 }, () => ({ t: 'x'.repeat(500_000) })),
  )
  t.equal(large.records_seen, 8)
  t.equal((await infer('postgresql', 'none', [wide])).records_seen, 1)
})

t.test('a key of the records as the primary key', async (t) => {
  const records = [
    { id: 'a', n: 1 },
    { id: 'A', n: 2 },
    { id: 'a', n: 3 },
  ]
  for (const dialect of dialects) {
    const proposal = await infer(dialect, 'keyed', records, {
      createTable: true,
      dedupe: { kind: 'key', key: 'id' },
    })
    t.same(proposal.failure, null)
    t.match(proposal.columns[0], { source_field: 'id', semantic_role: 'dedupe_id', nullable: false })
    await deliver(
      dialect,
      'keyed',
      proposal,
      records.map((record) => JSON.stringify(record)),
    )
    const rows = await query(dialect, 'SELECT id, n FROM keyed ORDER BY n')
    t.same(
      rows.map(({ id, n }) => [id, Number(n)]),
      [
        ['A', 2],
        ['a', 3],
      ],
      `${dialect}: case counts`,
    )
    const wrong = async (key: string, more: object[]) =>
      (await infer(dialect, 'none', more, { dedupe: { kind: 'key', key } })).failure
    t.match(await wrong('other', records), { step: 'sample', code: 'unfit_dedupe_key', message: /no record/ })
    t.match(await wrong('x', [{ x: 1 }, {}]), { message: /missing or null/ })
    t.match(await wrong('x', [{ x: 1 }, { x: 'a' }]), { message: /number in some/ })
    t.match(await wrong('x', [{ x: [1] }]), { message: /cannot be ids/ })
  }
  const found = await infer('postgresql', 'none', [
    { id: 1, order_id: 'x', userId: 5, same_id: 1, name: 'a' },
    { id: 2, order_id: 'y', userId: 6, same_id: 1, name: 'b' },
  ])
  t.same(found.dedupe_candidates, ['id', 'order_id', 'userId'])
  const none = await infer('postgresql', 'none', [{ a: 1 }], { dedupe: { kind: 'none' } })
  t.same(
    none.columns.map(({ column_name }) => column_name),
    ['a'],
  )
  t.match(none.warnings.join(), /stored again/)
})

t.test('a table that exists: what is missing, and adding it', async (t) => {
  for (const dialect of dialects) {
    await query(dialect, 'CREATE TABLE present (id int, userid int, must int NOT NULL)')
    const records = [{ id: 1, userId: 2, note: 'x', must: 3 }]
    const look = await infer(dialect, 'present', records, { createTable: true })
    t.match(look, { ok: true, table_exists: true, executed: [], missing_columns: ['note'] })
    t.match(look.ddl[0], /^ALTER TABLE .present.\n {2}ADD COLUMN .note. (text|longtext|TEXT)$/)
    t.match(look.columns[1], { column_name: 'userid', source_field: 'userId' })
    const done = await infer(dialect, 'present', records, { addColumns: true })
    t.match(done, { ok: true, executed: look.ddl, missing_columns: [] })
    const again = await infer(dialect, 'present', records, { addColumns: true })
    t.match(again, { ok: true, ddl: [], executed: [], missing_columns: [] })
    const some = await infer(dialect, 'present', [{ id: 1, more: true, other: 1 }], {
      keys: ['more', 'none'],
    })
    t.same(some.missing_columns, ['more'], 'the one key that was asked for')
    t.match(some.warnings.join(), /No record has the key "none"/)
    t.match((await infer(dialect, 'present', [{ id: 1 }])).warnings.join(), /"must".*rejected/)
    await deliver(dialect, 'present', done, [JSON.stringify(records[0])])
    t.equal((await query(dialect, 'SELECT note FROM present'))[0]?.note, 'x')
  }
})

t.test(
  'without the right to create a table, and without a server, there is the statement for whoever has it',
  async (t) => {
    await pg.query(
      "CREATE ROLE loader LOGIN PASSWORD 'secret-of-loader'; REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    await maria.query("CREATE USER loader IDENTIFIED BY 'secret-of-loader'")
    await maria.query(`GRANT SELECT ON ${maria.database}.* TO loader`)
    const as = { username: 'loader', password: 'secret-of-loader' }
    for (const dialect of ['postgresql', 'mysql'] as const) {
      const denied = await infer(dialect, 'denied', [{ a: 1 }], { createTable: true }, as)
      t.match(denied, { ok: false, failure: { step: 'create_table' }, executed: [], table_exists: false })
      t.match(denied.failure?.message, /denied.*Let an administrator/i)
      await servers[dialect].server.query(denied.ddl[0]!)
      t.match(
        await infer(dialect, 'denied', [{ a: 1 }], { createTable: true }),
        { ok: true, ddl: [] },
        'run by hand',
      )
      const away = await infer(dialect, 'away', [{ a: 1 }], { createTable: true }, { port: 1 })
      t.match(away, {
        ok: false,
        failure: { step: 'connect' },
        table_exists: null,
        missing_columns: ['_pipectl_id', 'a'],
      })
      t.equal(away.ddl.length, 1)
    }
  },
)
