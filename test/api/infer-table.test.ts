/** POST …/destinations/infer on the real daemon: what is proposed, what is run, what the audit log has of it. */
import t from 'tap'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, pullDestination, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const pg = await startPostgres()
t.teardown(() => pg.stop())
const api = checkedApi(daemon)
const pipeOf = (name: string, more: object = {}) =>
  created(api, '/v1/pipes', { pipe_name: name, ...more }, 'pipe_id')
const database = (table: string, more: object = {}) => {
  const { host, port, database: name, user: username, password } = pg
  return {
    destination_type: 'destination_database',
    destination_config: { host, port, database: name, username, password, table, ...more },
  }
}
const infer = async (pipeId: string, body: object) => {
  const answer = await api('POST', `/v1/pipes/${pipeId}/destinations/infer`, body)
  t.equal(answer.status, 200, answer.text)
  return Object(answer.body)
}
const auditOf = async (pipeId: string) => {
  const { body } = await api('GET', `/v1/audit?resource_id=${pipeId}&operation=inferTable`)
  return body.audit as Record<string, unknown>[]
}

t.test('from the first record to the first row: the table is created, and delivered to', async (t) => {
  const pipeId = await pipeOf('orders', {
    pipe_add_ingest_ip: true,
    pipe_ingest_geo_country_field: 'country',
  })
  t.match(await infer(pipeId, database('orders')), {
    ok: false,
    failure: { step: 'sample', code: 'no_records' },
    ddl: [],
  })
  await daemon.ingest(
    pipeId,
    [
      { id: 1, total: 12345678901234567890n, at: '2026-01-02T03:04:05Z' },
      { id: 2, note: 'ü' },
    ].map((record) =>
      JSON.parse(JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? 1.5 : value))),
    ),
  )
  const look = await infer(pipeId, database('orders'))
  t.match(look, { ok: true, source: 'pipe', records_seen: 2, table_exists: false, executed: [] })
  t.same(
    await pg.query("SELECT to_regclass('orders') AS found"),
    [{ found: null }],
    'looking creates nothing',
  )
  t.same(await auditOf(pipeId), [])
  t.same(
    look.observations.map((one: Record<string, unknown>) => [one.key, one.seen, one.proposed_type]),
    [
      ['id', 2, 'bigint'],
      ['total', 1, 'numeric'],
      ['at', 1, 'timestamptz'],
      ['ingest_ts', 2, 'timestamptz'],
      ['ingest_ip', 2, 'text'],
      ['note', 1, 'text'],
      ['country', 0, 'text'],
    ],
  )
  t.same(look.dedupe_candidates, ['id'])

  const done = await infer(pipeId, { ...database('orders'), create_table: true })
  t.match(done, { ok: true, executed: look.ddl, table_exists: true, missing_columns: [] })
  t.match(await auditOf(pipeId), [
    {
      operation: 'inferTable',
      resource_id: pipeId,
      after: { status: 'executed', table: 'orders', ddl: look.ddl },
    },
  ])
  t.notMatch(JSON.stringify(await auditOf(pipeId)), pg.password)
  await created(
    api,
    `/v1/pipes/${pipeId}/destinations`,
    { ...database('orders'), columns: done.columns, start_from: 'earliest' },
    'destination_id',
  )
  await until('both rows are there', async () => (await pg.query('SELECT 1 FROM orders')).length === 2)
  t.match(await pg.query('SELECT id, note, ingest_ip FROM orders ORDER BY id'), [
    { id: '1', note: null },
    { id: '2', note: 'ü' },
  ])
})

t.test('a sample, in the digits that were sent; a MySQL-family server', async (t) => {
  const maria = await startMariadb()
  t.teardown(() => maria.stop())
  const pipeId = await pipeOf('sampled', { pipe_add_ingest_ts: false })
  const { host, port, database: name, user: username, password } = maria
  const body = {
    destination_type: 'destination_database',
    destination_config: { host, port, database: name, username, password, table: 't', dialect: 'mariadb' },
    sample: '{"n":12345678901234567890,"id":"a"}\r\n\n {"n":1,"id":"b"}\n',
    dedupe_key: 'id',
    create_table: true,
  }
  const done = await infer(pipeId, body)
  t.match(done, { ok: true, source: 'sample', records_seen: 2, executed: [/CREATE TABLE `t`/] })
  t.match(done.observations, [{ proposed_type: 'decimal(65,0)' }, { proposed_type: /varchar\(255\).*_bin/ }])
  await created(
    api,
    `/v1/pipes/${pipeId}/destinations`,
    {
      destination_type: body.destination_type,
      destination_config: body.destination_config,
      columns: done.columns,
    },
    'destination_id',
  )
  await daemon.ingest(pipeId, [
    { n: 1, id: 'a' },
    { n: 2, id: 'a' },
    { n: 3, id: 'A' },
  ])
  await until('two rows are there', async () => (await maria.query('SELECT 1 FROM t')).length === 2)
})

t.test('a stored destination: missing columns are added with its stored password', async (t) => {
  const pipeId = await pipeOf('stored')
  await pg.query('CREATE TABLE stored (id int)')
  const destination_id = await created(
    api,
    `/v1/pipes/${pipeId}/destinations`,
    database('stored'),
    'destination_id',
  )
  const sample = '{"id":1,"new key":true}'
  const look = await infer(pipeId, { destination_id, sample })
  t.match(look, { table_exists: true, missing_columns: ['new key', 'ingest_ts'], executed: [] })
  t.match(await infer(pipeId, { destination_id, sample, add_columns: true }), {
    ok: true,
    executed: look.ddl,
  })
  t.match(await infer(pipeId, { destination_id, sample, add_columns: true }), { ok: true, ddl: [] })
  t.match(await auditOf(pipeId), [
    { after: { status: 'nothing_to_do' } },
    { after: { status: 'executed', ddl: look.ddl } },
  ])
})

t.test('what fails at the database is in the answer, without its secrets', async (t) => {
  const pipeId = await pipeOf('failing')
  const sample = '{"a":1}'
  const wrong = await infer(pipeId, {
    ...database('t', { password: 'wrong-password' }),
    sample,
    create_table: true,
  })
  t.match(wrong, { ok: false, failure: { step: 'connect', code: '28P01' }, table_exists: null })
  t.equal(wrong.ddl.length, 1, 'the statement is there all the same')
  t.notMatch(JSON.stringify(wrong), 'wrong-password')
  t.match(await auditOf(pipeId), [{ after: { status: 'failed', failure: { code: '28P01' } } }])
  const gone = await infer(pipeId, { ...database('t', { port: 1 }), sample })
  t.match(gone, { ok: false, failure: { step: 'connect' } })
  const schema = await infer(pipeId, { ...database('no_such_schema.t'), sample, create_table: true })
  t.match(schema, { ok: false, failure: { step: 'create_table', code: '3F000' } })
})

t.test('bodies that are not right', async (t) => {
  const pipeId = await pipeOf('bodies')
  const path = `/v1/pipes/${pipeId}/destinations/infer`
  const errors = async (body: object) => errorsIn(await api('POST', path, body))
  t.match(await errors({ ...database('t'), sample: '{"a":1}\n[1]' }), {
    sample: /line 2 is not a JSON object/,
  })
  t.match(await errors({ ...database('t'), sample: '\n \n' }), { sample: /no records/ })
  t.match(await errors({ ...database('t'), samples: 'x' }), { samples: 'Unknown field.' })
  t.match(await errors({ ...database('t'), create_table: 'yes' }), { create_table: /./ })
  t.match(await errors({ ...database('t'), dedupe_key: '' }), { dedupe_key: /./ })
  t.match(await errors(database('a.b.c')), { 'destination_config.table': /./ })
  t.match(await errors(pullDestination), { destination_type: 'must be one of destination_database' })
  const pullId = await created(api, `/v1/pipes/${pipeId}/destinations`, pullDestination, 'destination_id')
  t.match(await errors({ destination_id: pullId }), { destination_id: /Only a destination_database/ })
  t.equal((await api('POST', path, { destination_id: unknownId })).body.error, 'destination_not_found')
  const elsewhere = await api('POST', `/v1/pipes/${unknownId}/destinations/infer`, database('t'))
  t.equal(elsewhere.body.error, 'pipe_not_found')
})
