/**
 * PostgreSQL: what COPY stores is what the statement stores. Every batch goes to two tables that differ in one thing: the second has row
 * security, which the owner does not notice and COPY does not serve. A trigger says by which way each row came.
 */
import t, { type Test } from 'tap'
import { type Batch, noProgress, type RejectedRecord } from '../../../src/destinations/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { anyKey, failureOf, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { startPostgres } from '../../support/postgres.ts'
import { generator } from '../../support/random-json.ts'
import { scaled } from '../../support/scale.ts'

const pg = await startPostgres()
t.teardown(() => pg.stop())
type Columns = NonNullable<Parameters<typeof makeSpec>[2]>

await pg.query(`CREATE FUNCTION say_way() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.way := split_part(current_query(), ' ', 1); RETURN NEW; END $$`)

/** Tables `name` and `name_stated` with these columns, and `way`. */
async function makeTables(name: string, columns: string): Promise<void> {
  for (const table of [name, `${name}_stated`]) {
    await pg.query(`CREATE TABLE ${table} (${columns}, way text)`)
    await pg.query(`CREATE TRIGGER way BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION say_way()`)
  }
  await pg.query(`ALTER TABLE ${name}_stated ENABLE ROW LEVEL SECURITY`)
}

function open(t: Test, table: string, columns: Columns = [], config: Record<string, unknown> = {}) {
  const { host, port, database, user: username, password } = pg
  const target = { host, port, database, username, password, table, ...config }
  const driver = postgresql.open(makeSpec('destination_database', target, columns), openSettings, anyKey)
  t.teardown(() => driver.close())
  return driver
}

/** Both tables' rows as text, after the batch went to both. */
async function bothWays(t: Test, name: string, batch: Batch, columns: Columns = []) {
  const texts = async (table: string) => {
    const driver = open(t, table, columns)
    await driver.deliver(batch, never)
    await driver.close()
    const rows = await pg.query(`SELECT (to_jsonb(x) - 'way')::text AS row, way FROM ${table} x ORDER BY 1`)
    return { rows: rows.map(({ row }) => row), ways: [...new Set(rows.map(({ way }) => way))] }
  }
  return { copied: await texts(name), stated: await texts(`${name}_stated`) }
}

/** Of each type, JSON that its input takes. */
const takes: Record<string, readonly string[]> = {
  text: [
    '"a"',
    '""',
    '"\\\\N"',
    '"a\\tb\\nc\\rd\\\\e"',
    '"\\u00fc \\ud83d\\ude00"',
    '"東京"',
    '1.10',
    'true',
    '{"a": [1, "\\\\"]}',
    '[1,\t2]',
  ],
  'varchar(5)': ['"short"', '"a    "', '12345', 'null'],
  'char(4)': ['"ab"', '"ab  "'],
  integer: ['1', '-7', '"12"', '" 12 "', 'null'],
  bigint: ['9007199254740993', '"-1"'],
  numeric: ['12345678901234567890.10', '1e40', '"NaN"', '-0.0'],
  'numeric(6,2)': ['1.005', '9999.99', '"12"'],
  real: ['1.5', '1e-10', '"Infinity"'],
  boolean: ['true', 'false', '"yes"', '"f"', '1'],
  jsonb: [
    '{"b": 1.0, "a": [true, null, "\\"x\\\\"]}',
    '"text"',
    '"\\n\\u00e9"',
    '1.10',
    'false',
    '[]',
    '{"k":\t"\\ud83d\\ude00"}',
  ],
  json: ['{"b" : 1.0,\t"a":1e2}', '"te\\"xt"', '[1 , 2]', '-1.50'],
  timestamptz: ['"2026-01-02T03:04:05.678Z"', '"2026-01-02 03:04:05+02"'],
  date: ['"2026-01-02"', '"20260102"'],
  uuid: ['"a3a8f9c6-1111-4c44-8d88-000000000001"', '"A3A8F9C611114C448D88000000000001"'],
  bytea: ['"\\\\x00ff"', '"abc\\\\\\\\"', '"plain"'],
  inet: ['"10.0.0.1/24"', '"::1"'],
  interval: ['"1 day"', '"PT5M"'],
  point: ['"(1,2)"'],
  mood: ['"good"', '"bad"'],
  positive: ['1', '"5"'],
  document: ['{"a": "\\\\"}', '"x"', '7'],
}

t.test('values of every plain type, however they are spelled', async (t) => {
  await pg.query(`CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE DOMAIN document AS jsonb`)
  const types = Object.keys(takes)
  await makeTables('typed', types.map((type, index) => `"c${index}" ${type}`).join(', '))
  const random = generator(7)
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)]!
  const record = () => {
    const members = types.flatMap((type, index) =>
      random() < 0.1 ? [] : [`${pick(['', ' ', '\t'])}"c${index}"${pick([':', ' : '])}${pick(takes[type]!)}`],
    )
    const others = ['"c0":"first of two"', '"other":{"c0":1}', '"\\u0063\\u0031":"esc"', '"":""']
    return `${pick(['', ' '])}{${[pick(others.slice(0, 2)), ...members, ...(random() < 0.2 ? [pick(others.slice(1))] : [])].join(',')}}`
  }
  for (let round = 0; round < scaled(5); round += 1) {
    await pg.query('TRUNCATE typed, typed_stated')
    const messages = Array.from({ length: 60 }, () => Array.from({ length: 1 + (round % 4) * 2 }, record))
    messages.push(Array.from({ length: 100 }, record))
    const { copied, stated } = await bothWays(t, 'typed', makeBatch(messages))
    t.same(copied.rows, stated.rows)
    t.same([copied.ways, stated.ways], [['COPY'], ['INSERT']])
  }
})

t.test('values that are made, defaults, and keys for two columns', async (t) => {
  await makeTables(
    'made',
    `id text, at timestamptz, at_ms bigint, doc jsonb, again text, own text DEFAULT 'mine', must text NOT NULL DEFAULT 'must', "we""ird" int`,
  )
  const columns: Columns = [
    { column_name: 'id', source_field: 'k' },
    { column_name: 'at', semantic_role: 'received_at' },
    { column_name: 'at_ms', semantic_role: 'received_at', column_type: 'number' },
    { column_name: 'doc', semantic_role: 'received_at' },
    { column_name: 'again', source_field: 'k' },
    { column_name: 'must' },
    { column_name: 'we"ird', source_field: 'back\\slash' },
  ]
  const of = (record: (index: number) => object) =>
    makeBatch([Array.from({ length: 120 }, (_, index) => record(index))])
  const full = await bothWays(
    t,
    'made',
    of((index) => ({ k: `k${index}`, must: 'x', 'back\\slash': index })),
    columns,
  )
  t.same(full.copied.rows, full.stated.rows)
  t.same(full.copied.ways, ['COPY'])
  await pg.query('TRUNCATE made, made_stated')
  const lacking = await bothWays(
    t,
    'made',
    of((index) => (index === 70 ? { k: 'x' } : { k: 'y', must: 'x' })),
    columns,
  )
  t.same(lacking.copied.rows, lacking.stated.rows)
  t.same(lacking.copied.ways, ['INSERT'], 'the default of a NOT NULL column')
  await pg.query('TRUNCATE made, made_stated')
  const byName = await bothWays(
    t,
    'made',
    of((index) => ({ id: `k${index}`, must: 'm', ...(index === 3 ? {} : { own: null }) })),
  )
  t.same(byName.copied.rows, byName.stated.rows)
  t.same(byName.copied.ways, ['INSERT'], 'the default of a key that one record lacks')
})

t.test('upserts, and a table that is partitioned', async (t) => {
  const made = `id text, v int, note text NOT NULL DEFAULT 'none'`
  for (const table of ['upserted', 'upserted_stated']) {
    await pg.query(`CREATE TABLE ${table} (${made}, way text, PRIMARY KEY (id)) PARTITION BY HASH (id);
      CREATE TABLE ${table}_0 PARTITION OF ${table} FOR VALUES WITH (MODULUS 2, REMAINDER 0);
      CREATE TABLE ${table}_1 PARTITION OF ${table} FOR VALUES WITH (MODULUS 2, REMAINDER 1)`)
  }
  await pg.query('ALTER TABLE upserted_stated ENABLE ROW LEVEL SECURITY')
  const columns: Columns = [
    { column_name: 'id', semantic_role: 'dedupe_id', source_field: 'id' },
    { column_name: 'v', column_type: 'number' },
  ]
  const driver = open(t, 'upserted', columns)
  for (const round of [1, 2]) {
    const batch = makeBatch([
      Array.from({ length: 200 }, (_, index) => ({ id: `k${index % 150}`, v: index * round })),
    ])
    const { copied, stated } = await bothWays(t, 'upserted', batch, columns)
    t.same(copied.rows, stated.rows)
    t.equal(copied.rows.length, 150)
    // The same connection again: its temporary table is there, and empty.
    await driver.deliver(batch, never)
    await driver.deliver(batch, never)
  }
  t.same(await pg.query('SELECT count(*)::int AS n, max(v) AS v FROM upserted'), [{ n: 150, v: 398 }])
  const ways = await pg.query(
    `SELECT DISTINCT query ~ '^BEGIN;.* COPY pg_temp' AS staged FROM pg_stat_activity
      WHERE application_name = 'pipectl' AND state = 'idle' AND query <> ''`,
  )
  t.same(ways, [{ staged: true }], 'the rows were taken from the temporary table')
})

t.test('a record that the server rejects is found, and the others are stored once', async (t) => {
  await makeTables('strict', 'id int NOT NULL, short varchar(5), doc json')
  const kinds = [
    '{"id":-1,"short":"\\u0000"}',
    '{"id":-1,"short":"sixsix"}',
    '{"id":"x"}',
    '{"short":"a"}',
    '{"id":1,"doc":{"a":"\\ud800"}}',
  ]
  for (const table of ['strict', 'strict_stated']) {
    for (const [at, poison] of kinds.entries()) {
      const records = (from: number) => Array.from({ length: 60 }, (_, index) => `{"id":${from + index}}`)
      const batch = makeBatch([records(0), records(60), [poison], records(120)], 10)
      const error = await failureOf(open(t, table).deliver(batch, never))
      t.match(error, { class: 'permanent', failedSeq: 12, rejected: { recordIndex: 0 } }, `${table} ${at}`)
    }
    t.same(await pg.query(`SELECT * FROM ${table}`), [], 'all or nothing')
  }
})

t.test(
  'a record that cannot be sent by COPY in a later chunk: nothing is left of the rows before it',
  async (t) => {
    await makeTables('late', 'id int PRIMARY KEY, doc json')
    const columns: Columns = [
      { column_name: 'id', semantic_role: 'dedupe_id', source_field: 'id' },
      { column_name: 'doc' },
    ]
    const size = 2_000
    const padding = 'x'.repeat(200)
    const record = (index: number) =>
      `{"id":${index},"doc":{"a":"${index === size - 1 ? '\\u0000' : padding}"}}`
    const batch = makeBatch([Array.from({ length: size }, (_, index) => record(index))])
    for (const mapped of [[], columns]) {
      const driver = open(t, 'late', mapped)
      const error = await failureOf(driver.deliver(batch, never))
      t.match(error, { class: 'permanent', rejected: { recordIndex: size - 1 } })
      t.same(await pg.query('SELECT count(*)::int AS n FROM late'), [{ n: 0 }])
      // The connection is as good as before.
      await driver.deliver(makeBatch([Array.from({ length: 200 }, (_, index) => record(index))]), never)
      t.same(await pg.query('SELECT count(*)::int AS n, min(way) AS way FROM late'), [
        { n: 200, way: mapped.length === 0 ? 'COPY' : 'BEGIN;' },
      ])
      await pg.query('TRUNCATE late')
    }
  },
)

t.test('the search for a rejected record begins where COPY failed', async (t) => {
  await makeTables('searched', 'id int NOT NULL CHECK (id < 5000)')
  // A rollback does not take back a number of a sequence, so this counts the statements that failed too.
  await pg.query(`CREATE SEQUENCE tries; CREATE FUNCTION say_try() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('tries'); RETURN NULL; END $$`)
  for (const table of ['searched', 'searched_stated'])
    await pg.query(`CREATE TRIGGER try BEFORE INSERT ON ${table} EXECUTE FUNCTION say_try()`)
  const statements = async (
    table: string,
    bad: ReadonlyMap<number, unknown>,
    park: typeof noProgress.park,
  ) => {
    await pg.query(`TRUNCATE ${table}; ALTER SEQUENCE tries RESTART`)
    const ids = Array.from({ length: 1_000 }, (_, index) => ({ id: bad.get(index) ?? index }))
    const attempt = open(t, table).deliver(makeBatch([ids]), never, { ...noProgress, park })
    if (park === null)
      t.match(await failureOf(attempt), { rejected: { recordIndex: Math.min(...bad.keys()) } })
    else await attempt
    const [tried] = await pg.query("SELECT nextval('tries')::int - 1 AS n")
    return Number(tried?.n)
  }
  const kinds: [string, unknown][] = [
    ['a value that its column cannot read', 'x'],
    ['a number that a constraint rejects', 5_000],
  ]
  for (const [kind, value] of kinds) {
    for (const at of [0, 1, 617, 999]) {
      const bad = new Map([[at, value]])
      t.ok((await statements('searched', bad, null)) <= 5, `${kind} at ${at}`)
      const parked: (number | null)[] = []
      const park = async (rejected: readonly RejectedRecord[]) =>
        void parked.push(...rejected.map(({ recordIndex }) => recordIndex))
      t.ok((await statements('searched', bad, park)) <= 5, `${kind} at ${at}, parked`)
      t.same(parked, [at])
      t.same(await pg.query('SELECT count(*)::int AS n FROM searched'), [{ n: 999 }])
    }
    t.ok(
      (await statements('searched_stated', new Map([[617, value]]), null)) > 9,
      'without a COPY it bisects',
    )
  }
  // The row that COPY names is not the first bad one: keys are checked later than values are read.
  await pg.query('CREATE UNIQUE INDEX ON searched (id)')
  const two = new Map<number, unknown>([
    [300, 299],
    [700, 'x'],
  ])
  await statements('searched', two, null)
})

t.test(
  'exactly once: a repeated batch is stored once, and a rejected one leaves the mark where it was',
  async (t) => {
    await makeTables('once', 'id int NOT NULL')
    const batch = makeBatch([Array.from({ length: 150 }, (_, index) => ({ id: index }))], 1)
    const driver = open(t, 'once', [], { exactly_once: true })
    await driver.deliver(batch, never)
    await driver.deliver(batch, never)
    await open(t, 'once', [], { exactly_once: true }).deliver(batch, never)
    t.same(await pg.query('SELECT count(*)::int AS n, max(way) AS way FROM once'), [{ n: 150, way: 'COPY' }])
    const next = (last: unknown) =>
      makeBatch([[...Array.from({ length: 149 }, (_, index) => ({ id: 1000 + index })), { id: last }]], 2)
    t.match(await failureOf(driver.deliver(next('x'), never)), { code: '22P02', failedSeq: 2 })
    await driver.deliver(next(7), never)
    t.same(await pg.query('SELECT count(*)::int AS n FROM once'), [{ n: 300 }])
  },
)

t.test('who may not make temporary tables, or has a view, is served by the statement', async (t) => {
  await pg.query(`CREATE TABLE kept (id text PRIMARY KEY, v int); CREATE VIEW kept_view AS SELECT * FROM kept;
    REVOKE TEMPORARY ON DATABASE ${pg.database} FROM PUBLIC; CREATE ROLE plain LOGIN PASSWORD 'plain';
    GRANT ALL ON kept, kept_view TO plain`)
  const login = { username: 'plain', password: 'plain' }
  const columns: Columns = [
    { column_name: 'id', semantic_role: 'dedupe_id', source_field: 'id' },
    { column_name: 'v', column_type: 'number' },
  ]
  const batch = (v: number) => makeBatch([Array.from({ length: 150 }, (_, index) => ({ id: `${index}`, v }))])
  const driver = open(t, 'kept', columns, login)
  await driver.deliver(batch(1), never)
  await driver.deliver(batch(2), never)
  t.same(await pg.query('SELECT count(*)::int AS n, min(v) AS v FROM kept'), [{ n: 150, v: 2 }])
  await open(t, 'kept_view', columns, login).deliver(batch(3), never)
  t.same(await pg.query('SELECT count(*)::int AS n, min(v) AS v FROM kept'), [{ n: 150, v: 3 }])
})
