/**
 * `on_permanent_error: park` on the real daemon with real databases and a real endpoint: one bad record costs one record, it is
 * edited and replayed, and what a `kill -9` interrupts is neither lost nor doubled.
 */
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

interface Parked {
  parked_id: string
  msg_id: string
  record_index: number | null
  state: string
  reason: string
  replays: number
  attempts: number
  records_count: number
  error: { code: string; message: string; column: string | null }
}

const [postgres, mariadb, sink] = [await startPostgres(), await startMariadb(), await startHttpSink()]
const daemon = await startDaemon()
t.teardown(async () => {
  await daemon.close()
  await Promise.all([postgres.stop(), mariadb.stop(), sink.stop()])
})

function database(server: typeof postgres | typeof mariadb, dialect: string, table: string, more = {}) {
  const { host, port, database, user: username, password } = server
  return {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, dialect, table, ...more },
    columns: [
      { column_name: 'id', column_type: 'string', semantic_role: 'dedupe_id' },
      { column_name: 'n', column_type: 'number' },
    ],
    on_permanent_error: 'park',
  }
}

async function listed(base: string, query = ''): Promise<Parked[]> {
  const { body } = await daemon.api<{ parked: Parked[] }>('GET', `${base}/parked${query}`)
  return body.parked
}

async function oneBadRecord(t: Test, server: typeof postgres | typeof mariadb, dialect: string) {
  const query = (sql: string): Promise<Record<string, unknown>[]> => server.query(sql)
  await query('CREATE TABLE events (id varchar(100) PRIMARY KEY, n int)')
  const count = async () => Number((await query('SELECT count(*) AS c FROM events'))[0]?.c)
  const pipeId = await daemon.createPipe({ pipe_name: `park-${dialect}` })
  const destinationId = await daemon.createDestination(pipeId, database(server, dialect, 'events'))
  const base = `/v1/pipes/${pipeId}/destinations/${destinationId}`
  const records = Array.from({ length: 1_000 }, (_, n) => ({ n: n === 700 ? 99_999_999_999 : n }))
  const accepted = await daemon.ingest(pipeId, records)
  await until('all but one are stored', async () => (await count()) === 999)
  await until('the other one is parked', async () => (await listed(base)).length === 1)
  const [bad] = await listed(base)
  t.match(bad, { record_index: 700, reason: 'permanent_error', state: 'parked', records_count: 1 })
  t.equal(bad?.msg_id, accepted.msg_id)
  const shown = await daemon.api('GET', `${base}/parked/${bad?.parked_id}`)
  t.match(shown.text, '"n":99999999999')
  const lane = async () =>
    (await daemon.api<{ destination: { lane: Record<string, unknown> } }>('GET', base)).body.destination.lane
  t.match(await lane(), { lane_state: 'idle', parked_records: 1, delivered_records: 999 })

  const replay = (body: object) => daemon.api('POST', `${base}/parked/${bad?.parked_id}/replay`, body)
  t.match(await replay({ records: [{ n: 88_888_888_888 }] }), { status: 202, body: { replays: 1 } })
  await until('it failed again', async () => (await listed(base))[0]?.state === 'parked')
  t.match((await listed(base))[0], { replays: 1, attempts: 2 })
  t.match(await replay({ records: [{ n: 1 }, { n: 2 }] }), { status: 400 })
  t.match(await replay({ records: [{ n: 4_242 }] }), { status: 202 })
  await until('it is stored', async () => (await listed(base)).length === 0)
  t.equal(await count(), 1_000)
  const [row] = await query(`SELECT id FROM events WHERE n = 4242`)
  t.equal(row?.id, `${accepted.msg_id}:700`, 'the id that it would have had')
  t.match(await lane(), { parked_records: 0, delivered_records: 1_000 })

  await daemon.ingest(
    pipeId,
    Array.from({ length: 20 }, () => ({ n: 99_999_999_999 })),
  )
  await until('these are parked', async () => (await listed(base)).length === 20)
  const code = (await listed(base))[0]?.error.code ?? ''
  t.equal((await listed(base, '?error_code=none')).length, 0)
  await query('ALTER TABLE events MODIFY n bigint').catch(() =>
    query('ALTER TABLE events ALTER COLUMN n TYPE bigint'),
  )
  t.match(await daemon.api('POST', `${base}/parked/replay`, { all: true, error_code: 'none' }), {
    body: { replayed: 0 },
  })
  t.match(await daemon.api('POST', `${base}/parked/replay`, { all: true, error_code: code }), {
    body: { replayed: 20 },
  })
  await until('all are stored', async () => (await listed(base)).length === 0)
  t.equal(await count(), 1_020)
}

t.test('PostgreSQL: one bad record of 1,000 costs one record', (t) => oneBadRecord(t, postgres, 'postgresql'))
t.test('MariaDB: one bad record of 1,000 costs one record', (t) => oneBadRecord(t, mariadb, 'mariadb'))

t.test('a wrong password or a missing table parks nothing', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'no-fault' })
  const missing = await daemon.createDestination(pipeId, database(postgres, 'postgresql', 'no_such_table'))
  const wrong = { ...database(postgres, 'postgresql', 'events') }
  wrong.destination_config = { ...wrong.destination_config, password: 'wrong' }
  const locked = await daemon.createDestination(pipeId, wrong)
  await daemon.ingest(pipeId, [{ n: 1 }])
  for (const id of [missing, locked]) {
    const base = `/v1/pipes/${pipeId}/destinations/${id}`
    await until('it is stuck', async () => {
      const { body } = await daemon.api('GET', base)
      return Object(body).destination.lane.last_error !== null
    })
    t.strictSame(await listed(base), [])
  }
})

t.test('exactly once: killed around replays, every record is there once', async (t) => {
  await postgres.query('CREATE TABLE once (n int)')
  const pipeId = await daemon.createPipe({ pipe_name: 'once' })
  const { destination_config: config } = database(postgres, 'postgresql', 'once', { exactly_once: true })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: config,
    columns: [{ column_name: 'n', column_type: 'number' }],
    on_permanent_error: 'park',
  })
  const base = `/v1/pipes/${pipeId}/destinations/${id}`
  const n = (at: number) => 3_000_000_000 + at
  await daemon.ingest(pipeId, [...Array.from({ length: 60 }, (_, at) => ({ n: n(at) })), { n: 1 }])
  await until('they are parked', async () => (await listed(base, '?limit=500')).length === 60)
  await postgres.query('ALTER TABLE once ALTER COLUMN n TYPE bigint')
  t.match(await daemon.api('POST', `${base}/parked/replay`, { all: true }), { body: { replayed: 60 } })
  const stored = async () => Number((await postgres.query('SELECT count(*) AS c FROM once'))[0]?.c)
  for (const some of [5, 20, 35]) {
    await until('some are stored', async () => (await stored()) >= some)
    await daemon.kill()
    await daemon.start()
  }
  await until('none is parked', async () => (await listed(base)).length === 0)
  const rows = await postgres.query('SELECT n, count(*) AS c FROM once GROUP BY n HAVING count(*) > 1')
  t.strictSame(rows, [], 'none is there twice')
  t.equal(await stored(), 61)
  await daemon.ingest(pipeId, [{ n: 2 }])
  await until('the lane goes on', async () => (await stored()) === 62)
  const laneRows = await postgres.query('SELECT * FROM _pipectl_lanes')
  t.equal(laneRows.length, 2, 'the lane has a row, and its replays have one')
  await daemon.api('DELETE', base)
  await until(
    'both go with it',
    async () => (await postgres.query('SELECT * FROM _pipectl_lanes')).length === 0,
  )
})

t.test('what is skipped is parked, and can be replayed', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'skipped' })
  sink.respondWith(() => ({ status: 422 }))
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/hook` },
  })
  const base = `/v1/pipes/${pipeId}/destinations/${id}`
  const text = '[{"n":12345678901234567890,"x":1.10},{"n":2}]'
  await daemon.ingest(pipeId, text)
  await until('it is stuck', async () => {
    const { body } = await daemon.api('GET', base)
    return Object(body).destination.lane.last_error?.class === 'permanent'
  })
  t.match(await daemon.api('POST', `${base}/skip`), { body: { skipped: true } })
  const [parked] = await listed(base)
  t.match(parked, { reason: 'skipped', record_index: null, records_count: 2 })
  const refused = sink.deliveries.at(-1)?.headers['webhook-id']
  sink.respondWith(() => ({}))
  await daemon.api('POST', `${base}/parked/${parked?.parked_id}/replay`)
  await until('it is stored', async () => (await listed(base)).length === 0)
  t.match(sink.deliveries.at(-1)?.text, /"n":12345678901234567890,"x":1\.10/)
  t.not(sink.deliveries.at(-1)?.headers['webhook-id'], refused)
  const { body } = await daemon.api('GET', base)
  t.match(body, { destination: { lane: { skipped_messages: 1, parked_records: 0, delivered_records: 2 } } })
})

t.test('a pull destination neither parks by itself nor replays', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'pulled' })
  const base = `/v1/pipes/${pipeId}/destinations`
  const pull = { destination_type: 'destination_pull', destination_config: {} }
  t.match(await daemon.api('POST', base, { ...pull, on_permanent_error: 'park' }), {
    status: 400,
    body: { errors: { on_permanent_error: /must be block/ } },
  })
  const id = await daemon.createDestination(pipeId, pull)
  t.match(await daemon.api('PATCH', `${base}/${id}`, { on_permanent_error: 'park' }), { status: 400 })
  t.match(await daemon.api('POST', `${base}/${id}/parked/replay`, { all: true }), { status: 400 })
})
