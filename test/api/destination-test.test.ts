/** POST …/destinations/test on the real daemon: every type, stored destinations, samples. */
import t from 'tap'
import { startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const pg = await startPostgres()
t.teardown(() => pg.stop())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main', pipe_add_ingest_ts: false }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const tried = async (body: object, query = '') => {
  const answer = await api('POST', `${base}/test${query}`, body)
  t.equal(answer.status, 200, answer.text)
  return Object(answer.body)
}
const http = (destination_config: object) => ({
  destination_type: 'destination_http_endpoint',
  destination_config,
})

t.test('a pull destination: one check, and it is fine (A6)', async (t) => {
  t.match(await tried(pullDestination), { ok: true, checks: [{ name: 'pull', ok: true }] })
  t.equal((await tried(pullDestination)).checks.length, 1)
})

t.test('an error response to the probe of an HTTP endpoint is a failed check', async (t) => {
  t.match(await tried(http({ url: sink.url })), { ok: true })
  for (const status of [401, 404, 500]) {
    sink.respondWith(() => ({ status }))
    t.match(await tried(http({ url: sink.url })), { ok: false }, String(status))
  }
})

t.test('a stored destination is tried with its stored secrets, and with changes', async (t) => {
  const config = { url: `${sink.url}/stored?token=t`, auth_header: 'Bearer stored' }
  const destination_id = await created(api, base, http(config), 'destination_id')
  sink.respondWith(({ headers, path }) => ({
    status: headers.authorization === 'Bearer stored' && path.endsWith('token=t') ? 200 : 401,
  }))
  t.match(await tried({ destination_id }), { ok: true })
  const moved = { url: `${sink.url}/moved?token=[redacted]`, auth_header: '[redacted]' }
  t.match(await tried({ destination_id, destination_config: moved }), { ok: true })
  t.equal(sink.deliveries.at(-1)?.path, '/moved?token=t')
  t.match(await tried({ destination_id, destination_config: { auth_header: 'Bearer other' } }), { ok: false })
  const { destination } = (await api('GET', `${base}/${destination_id}`)).body
  t.match(
    destination,
    { destination_config: { url: `${sink.url}/stored?token=[redacted]` } },
    'nothing is stored',
  )

  const wrong = await api('POST', `${base}/test`, { destination_id, destination_config: { method: 'GET' } })
  t.same(Object.keys(errorsIn(wrong)), ['destination_config.method'])
  t.equal(
    (await api('POST', `${base}/test`, { destination_id: unknownId })).body.error,
    'destination_not_found',
  )
})

t.test('?sample=true inserts the newest record into a database and rolls it back', async (t) => {
  await pg.query('CREATE TABLE orders (id int PRIMARY KEY, total int NOT NULL)')
  const { host, port, database, user: username, password } = pg
  const body = {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, table: 'orders' },
    columns: [
      { column_name: 'id', column_type: 'number' },
      { column_name: 'total', column_type: 'number' },
    ],
  }
  const sample = async () => (await tried(body, '?sample=true')).checks.at(-1)
  t.match(await sample(), { name: 'sample', ok: true, message: /^A generated record/ })
  await daemon.ingest(pipeId, { id: 1, total: 'many' })
  t.match(await sample(), { name: 'sample', ok: false, message: /newest record.*many/ })
  await daemon.ingest(pipeId, { id: 1, total: 2 })
  t.match(await sample(), { name: 'sample', ok: true, message: /newest record/ })
  t.same(await pg.query('SELECT * FROM orders'), [])
  t.same(errorsIn(await api('POST', `${base}/test?sample=maybe`, body)), { sample: 'must be true or false' })
})

t.test('the test of a database tells the columns of its table that take a value', async (t) => {
  const maria = await startMariadb()
  t.teardown(() => maria.stop())
  const labels = Array.from({ length: 30 }, (_, index) => `'label-${index}'`).join(',')
  await pg.query(`CREATE TABLE described (
    id bigint GENERATED ALWAYS AS IDENTITY, n numeric(10,2) NOT NULL, note varchar(20),
    arrived timestamptz NOT NULL DEFAULT now(), twice numeric GENERATED ALWAYS AS (n * 2) STORED, "two\nlines" text)`)
  await maria.query(`CREATE TABLE described (
    id bigint AUTO_INCREMENT PRIMARY KEY, n decimal(10,2) NOT NULL, note varchar(20), word varchar(9) DEFAULT 'NULL',
    arrived datetime NOT NULL DEFAULT current_timestamp(), twice int AS (n * 2), one enum(${labels}))`)
  const described = (
    server: typeof pg | typeof maria,
    dialect: string,
    table: string,
    columns?: object[],
  ) => {
    const { host, port, database, user: username, password } = server
    return tried({
      destination_type: 'destination_database',
      destination_config: { host, port, database, username, password, dialect, table },
      ...(columns === undefined ? {} : { columns }),
    })
  }
  const column = (column_name: string, data_type: string, is_nullable: boolean, has_default: boolean) => ({
    ...{ column_name, data_type, is_nullable, has_default },
  })

  const ofPostgres = await described(pg, 'postgresql', 'described')
  t.same(ofPostgres.table_columns, [
    column('n', 'numeric(10,2)', false, false),
    column('note', 'character varying(20)', true, false),
    column('arrived', 'timestamp with time zone', false, true),
    column('two lines', 'text', true, false),
  ])
  t.ok(
    ofPostgres.checks.every((check: object) => Object.keys(check).join() === 'name,ok,message'),
    'they are told once',
  )

  const ofMaria = (await described(maria, 'mysql', 'described')).table_columns
  t.same(ofMaria.slice(0, -1), [
    column('id', 'bigint(20)', false, true),
    column('n', 'decimal(10,2)', false, false),
    column('note', 'varchar(20)', true, false),
    column('word', 'varchar(9)', true, true),
    column('arrived', 'datetime', false, true),
  ])
  t.match(ofMaria.at(-1), { column_name: 'one', data_type: /^enum\('label-0',.*…$/ })
  t.equal(ofMaria.at(-1).data_type.length, 128, 'a long type is cut')

  for (const [server, dialect] of [
    [pg, 'postgresql'],
    [maria, 'mysql'],
  ] as const) {
    const wrong = await described(server, dialect, 'described', [
      { column_name: 'elsewhere', column_type: 'string' },
    ])
    t.match(wrong, { ok: false, table_columns: [{}] }, 'also where the mapping is wrong')
    const missing = await described(server, dialect, 'missing')
    t.equal(missing.ok, false)
    t.notOk('table_columns' in missing, 'not where there is no table')
    const names = Array.from({ length: 501 }, (_, index) => `c${index}`)
    await server.query(`CREATE TABLE wide (${names.map((name) => `${name} int`).join(', ')})`)
    const wide = (await described(server, dialect, 'wide')).table_columns
    t.same(
      wide.map((one: { column_name: string }) => one.column_name),
      names.slice(0, 500),
    )
  }
  t.notOk('table_columns' in (await tried(pullDestination)), 'not of other types')
})
