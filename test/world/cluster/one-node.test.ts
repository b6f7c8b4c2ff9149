/** One node over PostgreSQL and one nats-server: the whole life of records, as on one machine. */
import pg from 'pg'
import t from 'tap'
import { fullLimits } from '../../api/management-client.ts'
import { runCli } from '../../support/cli.ts'
import { startCluster } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { startParkingLane } from '../../support/parking.ts'
import { until } from '../../support/until.ts'

const [cluster, sink] = await Promise.all([startCluster(), startHttpSink()])
const node = cluster.nodes[0]!
t.teardown(async () => {
  await cluster.close()
  await sink.stop()
})

interface Pulled {
  msg_id: string
  stream_seq: number
  records: unknown[]
}
const pipe = (name: string) => node.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
const pullLane = (pipeId: string) =>
  node.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
const pull = (lane: string) => node.api<Pulled>('GET', `/v1/pull/${lane}?wait_ms=10000`)
const numbers = (count: number, from = 1) =>
  Array.from({ length: count }, (_, index) => ({ n: from + index }))

t.test('records in JetStream are not searched or deleted, and the error says what to do', async (t) => {
  const body = { kind: 'delete', keys: [{ path: 'email', value: 'ada@example.com' }] }
  t.match(await node.api('POST', '/v1/privacy/jobs', body), {
    status: 409,
    body: { error: 'privacy_unavailable', message: /discard parked records/ },
  })
  t.match(await node.api('GET', '/v1/privacy/jobs'), { status: 200, body: { jobs: [] } })
})

t.test('records reach a database, an endpoint and whoever pulls, in order', async (t) => {
  const pipeId = await pipe('orders')
  const { host, port, database: ofMetadata, user, password } = cluster.postgres
  await cluster.postgres.query('CREATE DATABASE shop')
  const shop = new pg.Client({ host, port, user, password, database: 'shop' })
  await shop.connect()
  t.teardown(() => shop.end())
  await shop.query('CREATE TABLE orders (n int)')
  const tableIn = (database: string) => ({
    destination_type: 'destination_database',
    destination_config: {
      ...{ host, port, database, username: user, password },
      dialect: 'postgresql',
      table: 'orders',
    },
    columns: [{ column_name: 'n', column_type: 'number' }],
  })
  const own = await node.api('POST', `/v1/pipes/${pipeId}/destinations`, tableIn(ofMetadata))
  t.match(own, { status: 400, body: { errors: { 'destination_config.host': /belongs to this service/ } } })
  await node.createDestination(pipeId, tableIn('shop'))
  await node.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/orders` },
  })
  const lane = await pullLane(pipeId)
  const first = await node.ingest(
    pipeId,
    '[{"n":1},{"n":2.50,"big":12345678901234567890}]'.replace('2.50', '2'),
  )
  for (const record of numbers(20, 3)) await node.ingest(pipeId, record)
  const pulled = await pull(lane)
  t.match(pulled, { status: 200, body: { msg_id: first.msg_id } })
  t.ok(pulled.text.includes('"big":12345678901234567890'), 'digit by digit')
  await until('the endpoint has all', () => sink.records().length === 22)
  t.same(
    sink.records().map(({ n }) => n),
    numbers(22).map(({ n }) => n),
  )
  await until('the table has all', async () => (await shop.query('SELECT n FROM orders')).rows.length === 22)
  const why = await node.api<{ lanes: { state: string }[] }>('GET', `/v1/messages/${first.msg_id}`)
  t.equal(why.status, 200)
  t.equal(why.body.lanes.length, 3)
  await until('all lanes have delivered it', async () => {
    const { body } = await node.api<{ lanes: { state: string }[] }>('GET', `/v1/messages/${first.msg_id}`)
    return body.lanes.filter(({ state }) => state === 'delivered').length === 3
  })
})

t.test('a pipe has no retention of its own, and truncates addresses as on one machine', async (t) => {
  const pipe_retention_hours =
    'must be null in a cluster: its buffer keeps the messages of all pipes for buffer.undelivered_hours'
  const rejected = { status: 400, body: { errors: { pipe_retention_hours } } }
  const body = { pipe_name: 'addresses', pipe_retention_hours: 1 }
  t.match(await node.api('POST', '/v1/pipes', body), rejected)
  const settings = { pipe_add_ingest_ts: false, pipe_add_ingest_ip: true, pipe_client_ip: 'truncated' }
  const pipeId = await node.createPipe({ ...body, ...settings, pipe_retention_hours: null })
  t.match(await node.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_retention_hours: 1 }), rejected)
  const lane = await pullLane(pipeId)
  await node.ingest(pipeId, { n: 1 })
  t.same((await pull(lane)).body.records, [{ n: 1, ingest_ip: '127.0.0.0' }])
})

t.test(
  'what was acknowledged is there after a kill, and nothing is delivered twice to who pulls',
  async (t) => {
    const pipeId = await pipe('kept')
    const lane = await pullLane(pipeId)
    const sent: string[] = []
    for (const record of numbers(30)) sent.push((await node.ingest(pipeId, record)).msg_id)
    const got = [(await pull(lane)).body.msg_id, (await pull(lane)).body.msg_id]
    // Asking for the next one settled the one before: that is saved a moment later.
    await node.kill()
    await node.start()
    while (got.length < 40 && got.at(-1) !== sent.at(-1)) got.push((await pull(lane)).body.msg_id)
    const atMostAgain = got.slice(2)
    t.same(atMostAgain.slice(-(sent.length - 2)), sent.slice(2), 'every message, in order')
    t.equal(await node.stop(), 0)
    await node.start()
    await node.ingest(pipeId, { n: 31 })
    t.match((await pull(lane)).body, { records: [{ n: 31 }] })
  },
)

t.test('an Idempotency-Key, also at once and after a restart', async (t) => {
  const pipeId = await pipe('once')
  const lane = await pullLane(pipeId)
  const headers = { 'idempotency-key': 'order 4711' }
  const answers = await Promise.all(numbers(20).map(() => node.ingest(pipeId, { a: 1 }, { headers })))
  t.equal(new Set(answers.map(({ msg_id }) => msg_id)).size, 1)
  await node.kill()
  await node.start()
  t.equal((await node.ingest(pipeId, { a: 1 }, { headers })).msg_id, answers[0]!.msg_id)
  t.match(await node.api('POST', `/v1/ingest/${pipeId}`, { a: 2 }, { headers }), {
    status: 422,
    body: { error: 'idempotency_key_reused' },
  })
  t.match((await pull(lane)).body, { records: [{ a: 1 }] })
  t.equal((await node.api('GET', `/v1/pull/${lane}?wait_ms=0`)).status, 204)
})

t.test('limits hold', async (t) => {
  const pipeId = await pipe('limited')
  const limits = { ...fullLimits, pl_ingest_max_records_per_request: 10, pl_ingest_max_records_per_day: 5 }
  t.equal((await node.api('PUT', `/v1/pipes/${pipeId}/limits`, limits)).status, 200)
  await node.ingest(pipeId, numbers(4))
  t.equal((await node.api('POST', `/v1/ingest/${pipeId}`, numbers(2))).status, 429)
  await node.ingest(pipeId, numbers(1))
  t.equal((await node.api('POST', `/v1/ingest/${pipeId}`, numbers(11))).status, 413)
})

t.test('records that are refused for good are parked, and replayed', async (t) => {
  const lane = await startParkingLane(node, 'parked')
  t.teardown(() => lane.sink.stop())
  await lane.send('{"n":1,"bad":true}', '{"n":2}')
  const [parked] = await lane.parked()
  t.match(parked, { reason: 'permanent_error', error: { code: 'http_422' } })
  lane.sink.respondWith(() => ({ status: 200 }))
  const replay = await node.api('POST', `${lane.path}/${parked!.parked_id}/replay`)
  t.ok(replay.status < 300, replay.text)
  await until('it is stored', async () => (await lane.parked()).length === 0)
})

t.test('a tail shows records as they come', async (t) => {
  const pipeId = await pipe('tailed')
  const abort = new AbortController()
  const response = await fetch(`${node.url}/v1/pipes/${pipeId}/tail`, {
    headers: { authorization: `Bearer ${node.apiKey}` },
    signal: abort.signal,
  })
  t.equal(response.status, 200)
  let text = ''
  const reading = (async () => {
    for await (const piece of response.body!) text += Buffer.from(piece).toString()
  })().catch(() => {})
  await node.ingest(pipeId, { hello: 'tail' })
  await until('the tail shows it', () => text.includes('"hello":"tail"'))
  abort.abort()
  await reading
})

t.test('usage, the newest messages and the state of the service', async (t) => {
  const pipeId = await pipe('counted')
  await node.ingest(pipeId, numbers(3))
  await node.ingest(pipeId, numbers(4))
  await until('usage has them', async () => {
    const { body } = await node.api<{ hours: { ingest_records: number }[] }>(
      'GET',
      `/v1/pipes/${pipeId}/usage`,
    )
    return body.hours.reduce((sum, hour) => sum + hour.ingest_records, 0) === 7
  })
  const list = await node.api<{ messages: unknown[] }>('GET', `/v1/pipes/${pipeId}/messages`)
  t.equal(list.body.messages.length, 2)
  const search = async (query: string) => {
    const { body } = await node.api<{ messages: { excerpt: unknown }[]; next: unknown; searched: unknown }>(
      'GET',
      `/v1/pipes/${pipeId}/messages?${query}`,
    )
    return body
  }
  t.match(await search('where=n=1'), {
    messages: [{ excerpt: { record_index: 0, text: /"n":1/ } }],
    next: null,
    searched: { messages: 2 },
  })
  t.match(await search('where=n=9'), { messages: [], next: null, searched: { messages: 2 } })
  t.match(await node.api('GET', '/v1/ready'), { status: 200, body: { status: 'ready' } })
  const { body } = await node.api<{ cluster: { nodes: { is_this: boolean }[] } }>('GET', '/v1/overview')
  // Those that were killed before are shown for a while.
  const own = body.cluster.nodes.filter(({ is_this: isThis }) => isThis)
  t.match(own, [{ node_name: 'a', node_state: 'live' }])
})

t.test('a revoked key stops working with the response', async (t) => {
  const made = await node.api<{ api_key: string; api_key_id: string }>('POST', '/v1/api-keys', {
    api_key_name: 'second',
  })
  const { api_key: key, api_key_id: id } = made.body
  t.equal((await node.api('GET', '/v1/pipes', undefined, { key })).status, 200)
  t.equal((await node.api('DELETE', `/v1/api-keys/${id}`)).status, 204)
  t.equal((await node.api('GET', '/v1/pipes', undefined, { key })).status, 401)
})

t.test('commands on the host of a node work on the metadata of the cluster', async (t) => {
  const env = {
    PIPECTL_DATA_DIR: node.dataDir,
    PIPECTL_METADATA_URL: cluster.metadataUrl,
    PIPECTL_BUFFER_NATS: cluster.nats.url,
    PIPECTL_NODE_NAME: 'a',
    PIPECTL_METRICS_LISTEN: 'off',
    PIPECTL_LISTEN: '127.0.0.1:0',
  }
  const list = await runCli(['workspaces', 'list', '--json'], { env })
  t.match(JSON.parse(list.stdout), { workspaces: [{ workspace_name: 'default' }] })
  t.equal((await runCli(['workspaces', 'create', 'second', '--json'], { env })).code, 0)
  const doctor = await runCli(['doctor', '-o', 'json'], { env })
  t.equal(doctor.code, 0, doctor.stderr + doctor.stdout)
  t.match(doctor.stdout, /"name":"nodes","result":"ok","detail":"a; this one is a of cluster pipectl"/)
  t.notMatch(doctor.stdout + doctor.stderr, cluster.postgres.password)
})

t.test('the log has no password, and nothing is printed beside it', async (t) => {
  t.notMatch(JSON.stringify(node.log), cluster.postgres.password)
  t.same(node.noise, [])
})
