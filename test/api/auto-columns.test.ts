/**
 * `auto_add_columns` on the real daemon and real databases: a key without a column gets one, and the next records fill it. Hostile
 * keys, limits, missing rights and management's changes stop nothing that is delivered.
 */
import path from 'node:path'
import Database from 'better-sqlite3'
import { Client } from 'pg'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { openTableFile } from '../support/table-file.ts'
import { until } from '../support/until.ts'
import { checkedApi, created } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const [pg, maria] = [await startPostgres(), await startMariadb()]
t.teardown(() => Promise.all([pg.stop(), maria.stop()]))
const api = checkedApi(daemon)
const column = (column_name: string, more: object = {}) => ({ column_name, column_type: 'string', ...more })

const serverConfig = ({ host, port, database, user: username, password }: typeof pg | typeof maria) => ({
  ...{ host, port, database, username, password },
})
const file = openTableFile(daemon, 'shop')
/** `null`: the columns are matched by name. */
async function newLane(name: string, config: object, columns: object[] | null = [column('id')]) {
  const pipe = await created(api, '/v1/pipes', { pipe_name: name, pipe_add_ingest_ts: false }, 'pipe_id')
  const path = `/v1/pipes/${pipe}/destinations`
  const isFile = 'file' in config
  const body = {
    destination_type: isFile ? 'destination_sqlite' : 'destination_database',
    destination_name: name,
    destination_config: { table: name, auto_add_columns: true, ...config },
    ...(columns === null ? {} : { columns }),
  }
  const id = await created(api, path, body, 'destination_id')
  let sent = 0
  return {
    id,
    path: `${path}/${id}`,
    /** Sends 20 records, which is enough for their keys, in one request. */
    async send(record: object, count = 20) {
      await daemon.ingest(
        pipe,
        Array.from({ length: count }, () => ({ id: ++sent, ...record })),
      )
    },
    async columns() {
      const { columns: found } = Object((await api('GET', `${path}/${id}`)).body.destination)
      return (found as { column_name: string }[]).map(({ column_name }) => column_name)
    },
    async delivered(count: number) {
      await until(`${count} records are delivered`, async () => {
        const { lane } = Object((await api('GET', `${path}/${id}`)).body.destination)
        return lane.delivered_records === count
      })
    },
  }
}

const pgColumns = async (table: string) =>
  Object.fromEntries(
    (
      await pg.query(
        `SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute
         WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum`,
        [table],
      )
    ).map(({ attname, type }) => [attname, type]),
  )

for (const [kind, config, query] of [
  ['postgresql', serverConfig(pg), (sql: string) => pg.query(sql)],
  ['mariadb', { ...serverConfig(maria), dialect: 'mariadb' }, (sql: string) => maria.query(sql)],
  ['sqlite', { file: 'shop' }, async (sql: string) => file.query(sql)],
] as const) {
  t.test(`${kind}: a key gets a column, and the next records fill it`, async (t) => {
    const table = `sales_${kind}`
    await query(`CREATE TABLE ${table} (id integer)`)
    const lane = await newLane(table, config)
    await lane.send({ typo: 1 }, 1)
    await lane.send({ gift: 'tea', cents: 250 }, 19)
    await lane.delivered(20)
    t.same(await lane.columns(), ['id'], 'too few records have the keys')
    await lane.send({ gift: 'cup', cents: 1 }, 1)
    await until('the columns are mapped', async () => (await lane.columns()).length === 3)
    t.same(await lane.columns(), ['id', 'gift', 'cents'])
    await lane.send({ gift: 'pot', cents: 9_007_199_254_740_991, typo: 2 }, 1)
    await lane.delivered(22)
    const rows = await query(`SELECT id, gift, cents FROM ${table} WHERE gift IS NOT NULL`)
    t.same(
      rows.map(({ gift, cents }) => [gift, String(cents)]),
      [['pot', '9007199254740991']],
      'earlier records keep NULL',
    )
    const { audit } = (await api('GET', `/v1/audit?resource_id=${lane.id}&operation=updateDestination`)).body
    const [entry] = audit as Record<string, unknown>[]
    t.match(entry, { actor: { kind: 'local', name: 'pipectl', id: null }, address: null })
    t.match(String(Object(entry?.after).ddl), /ADD COLUMN/)
    t.equal((audit as unknown[]).length, 1)
    const { drift } = Object((await api('GET', `${lane.path}/drift`)).body)
    t.notOk(Object(drift).keys.some(({ key }: { key: string }) => key === 'gift'))
  })
}

t.test('without the setting nothing is added', async (t) => {
  await pg.query('CREATE TABLE plain (id int)')
  const lane = await newLane('plain', { ...serverConfig(pg), auto_add_columns: false })
  await lane.send({ gift: 1 }, 50)
  await until('it is drift', async () => {
    const { lane: status } = Object((await api('GET', lane.path)).body.destination)
    return status.unmapped_keys === 1
  })
  t.same(await pgColumns('plain'), { id: 'integer' })
})

t.test('hostile keys get no column, and columns that are not mapped stay out of reach', async (t) => {
  await pg.query('CREATE TABLE hostile (id int, secret text, "Total" int)')
  const lane = await newLane('hostile', serverConfig(pg), [
    column('id'),
    column('Total', { source_field: 'sum' }),
  ])
  const keys = {
    ...{ secret: 'x', SECRET: 'x', total: 1, ID: 1, xmin: 1, _pipectl_id: 'x', '': 1, ' padded': 1 },
    ...{
      'a"; DROP TABLE hostile; --': 1,
      'line\nbreak': 1,
      '\u202eabc': 1,
      ['k'.repeat(64)]: 1,
      ['ü'.repeat(40)]: 1,
    },
    ...{ "quote'": 1, ['long'.repeat(500)]: 1, __proto__: null, good: 1, Good: 2 },
  }
  await lane.send(keys)
  await until('one key got a column', async () => (await lane.columns()).includes('good'))
  t.same(await pgColumns('hostile'), { id: 'integer', secret: 'text', Total: 'integer', good: 'bigint' })
  await lane.send(keys)
  await lane.delivered(40)
  t.same(await pg.query('SELECT DISTINCT secret, "Total" FROM hostile'), [{ secret: null, Total: null }])
  t.same(await lane.columns(), ['id', 'Total', 'good'])
})

t.test('at most 20 columns a day, and the alert says so', async (t) => {
  const receiver = await startHttpSink()
  t.teardown(() => receiver.stop())
  await api('PUT', '/v1/alerts', { url: receiver.url, events: ['columns.not_added'] })
  await pg.query('CREATE TABLE wide (id int)')
  const lane = await newLane('wide', serverConfig(pg))
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`key${n}`, n]))
  await lane.send(many)
  await until('20 columns are mapped', async () => (await lane.columns()).length === 21)
  await lane.send(many)
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  t.match(JSON.parse(receiver.deliveries[0]!.text), {
    type: 'columns.not_added',
    count: 10,
    keys: ['key20', 'key21', 'key22', 'key23', 'key24'],
    error: { code: 'column_limit' },
    message: /^wide → wide: columns for 10 keys could not be added \("key20", .* \(5 more\)\): 20 columns/,
  })
  await daemon.stop()
  await daemon.start()
  await lane.send(many)
  await lane.delivered(60)
  t.equal(Object.keys(await pgColumns('wide')).length, 21, 'a restart does not begin the day again')
})

t.test('a user without the right to ALTER: delivery continues, and it is repeated', async (t) => {
  const receiver = await startHttpSink()
  t.teardown(() => receiver.stop())
  await api('PUT', '/v1/alerts', { url: receiver.url, events: ['columns.not_added'] })
  await pg.query("CREATE ROLE loader LOGIN PASSWORD 'loader'")
  await pg.query('CREATE TABLE granted (id int)')
  await pg.query('GRANT INSERT, SELECT ON granted TO loader')
  const lane = await newLane('granted', { ...serverConfig(pg), username: 'loader', password: 'loader' })
  await lane.send({ gift: 1 })
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  t.match(JSON.parse(receiver.deliveries[0]!.text), {
    type: 'columns.not_added',
    error: { code: '42501' },
    keys: ['gift'],
  })
  await lane.send({ gift: 1 })
  await lane.delivered(40)
  t.same(await lane.columns(), ['id'])
  await pg.query('ALTER TABLE granted OWNER TO loader')
  await until('the column is mapped', async () => (await lane.columns()).includes('gift'), {
    timeoutMs: 60_000,
  })
})

t.test('a busy table: the statement gives up its lock, and its writers are not held up', async (t) => {
  await pg.query('CREATE TABLE busy (id int)')
  const lane = await newLane('busy', serverConfig(pg))
  const reader = await maria.connect()
  t.teardown(() => reader.end())
  await maria.query('CREATE TABLE busy (id int)')
  const mariaLane = await newLane('busy_maria', { ...serverConfig(maria), dialect: 'mariadb', table: 'busy' })
  await reader.query('START TRANSACTION')
  await reader.query('SELECT * FROM busy')
  await mariaLane.send({ gift: 1 })
  await mariaLane.send({ gift: 1 })
  await mariaLane.delivered(40)
  t.same(await mariaLane.columns(), ['id'])
  await reader.query('COMMIT')
  await until('the column is mapped', async () => (await mariaLane.columns()).includes('gift'), {
    timeoutMs: 60_000,
  })
  await lane.send({ gift: 1 })
  await until('the other lane has it too', async () => (await lane.columns()).includes('gift'))
})

t.test('PostgreSQL: while a transaction has read the table, the statement gives up its lock', async (t) => {
  const receiver = await startHttpSink()
  t.teardown(() => receiver.stop())
  await api('PUT', '/v1/alerts', { url: receiver.url, events: ['columns.not_added'] })
  await pg.query('CREATE TABLE held (id int)')
  const lane = await newLane('held', serverConfig(pg))
  const { host, port, database, user, password } = pg
  const reader = new Client({ host, port, database, user, password })
  await reader.connect()
  t.teardown(() => reader.end())
  await reader.query('BEGIN; SELECT * FROM held')
  await lane.send({ gift: 1 })
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  t.match(JSON.parse(receiver.deliveries[0]!.text), { error: { code: '55P03' }, keys: ['gift'] })
  // Records queue behind a statement that waits for its lock.
  await lane.send({ gift: 1 })
  await lane.delivered(40)
  t.same(await lane.columns(), ['id'])
  await reader.query('COMMIT')
  await until('the column is mapped', async () => (await lane.columns()).includes('gift'), {
    timeoutMs: 60_000,
  })
})

t.test('columns matched by name: the column is enough', async (t) => {
  await pg.query('CREATE TABLE named (id int, note text)')
  const lane = await newLane('named', serverConfig(pg), null)
  await lane.send({ note: 'a', gift: 1 })
  await until('the table has the column', async () => Object.hasOwn(await pgColumns('named'), 'gift'))
  await until('the next records fill it', async () => {
    await lane.send({ note: 'b', gift: 2 }, 1)
    return (await pg.query('SELECT 1 FROM named WHERE gift = 2')).length > 0
  })
  t.same(await lane.columns(), [])
  t.same(await pgColumns('named'), { id: 'integer', note: 'text', gift: 'bigint' })
})

t.test('exactly once into a partitioned table', async (t) => {
  await pg.query('CREATE TABLE parts (id int) PARTITION BY RANGE (id)')
  await pg.query('CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (30)')
  await pg.query('CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (30) TO (1000)')
  const lane = await newLane('parts', { ...serverConfig(pg), exactly_once: true })
  await lane.send({ at: '2027-01-01T00:00:00Z', tags: ['a'] })
  await until('the columns are mapped', async () => (await lane.columns()).length === 3)
  await lane.send({ at: '2027-01-01T00:00:00Z', tags: ['a'] })
  await lane.delivered(40)
  t.same(await pgColumns('parts'), { id: 'integer', at: 'timestamp with time zone', tags: 'jsonb' })
  t.same(await pg.query('SELECT count(*)::int AS rows, count(tags)::int AS tags FROM parts'), [
    { rows: 40, tags: 20 },
  ])
})

t.test('a mapping that a user removes stays removed', async (t) => {
  await pg.query('CREATE TABLE removed (id int)')
  const lane = await newLane('removed', serverConfig(pg))
  await lane.send({ gift: 1 })
  await until('the column is mapped', async () => (await lane.columns()).includes('gift'))
  t.equal((await api('PATCH', lane.path, { columns: [column('id')] })).status, 200)
  await lane.send({ gift: 1, other: 1 })
  await until('another key got its column', async () => (await lane.columns()).includes('other'))
  t.same(await lane.columns(), ['id', 'other'])
})

t.test(
  'killed between ALTER and the mapping: the column that exists is mapped after the start',
  async (t) => {
    await pg.query('CREATE TABLE halted (id int)')
    await pg.query('CREATE TABLE gate (is_open bool); INSERT INTO gate VALUES (false)')
    // The statement ends when the test has locked metadata, so that the mapping cannot be stored.
    await pg.query(`CREATE FUNCTION wait_for_gate() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN LOOP EXIT WHEN (SELECT is_open FROM gate); PERFORM pg_sleep(0.02); END LOOP; END $$`)
    await pg.query(
      "CREATE EVENT TRIGGER gate ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION wait_for_gate()",
    )
    const lane = await newLane('halted', serverConfig(pg))
    await lane.send({ gift: 1 })
    await until(
      'the statement runs',
      async () =>
        (
          await pg.query(
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%' AND state = 'active'",
          )
        ).length > 0,
    )
    const metadata = new Database(path.join(daemon.dataDir, 'metadata.db'))
    metadata.exec('BEGIN IMMEDIATE')
    await pg.query('UPDATE gate SET is_open = true')
    await until('the table has the column', async () => Object.hasOwn(await pgColumns('halted'), 'gift'))
    await daemon.kill()
    t.same(
      metadata
        .prepare('SELECT column_name, is_added FROM added_columns WHERE destination_id = ?')
        .all(lane.id),
      [{ column_name: 'gift', is_added: 0 }],
      'planned and not mapped',
    )
    metadata.exec('ROLLBACK')
    metadata.close()
    await pg.query('DROP EVENT TRIGGER gate')
    await daemon.start()
    t.same(await lane.columns(), ['id'])
    await lane.send({ gift: 2 })
    await until('the column is mapped', async () => (await lane.columns()).includes('gift'))
    await lane.send({ gift: 3 }, 1)
    await until(
      'it is filled',
      async () => (await pg.query('SELECT 1 FROM halted WHERE gift = 3')).length > 0,
    )
    const { audit } = (await api('GET', `/v1/audit?resource_id=${lane.id}&operation=updateDestination`)).body
    t.same(
      (audit as { after: { ddl: unknown } }[]).map(({ after }) => after.ddl),
      [[]],
      'nothing was altered again',
    )
  },
)
