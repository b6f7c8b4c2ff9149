/** Alerts of a real daemon to real receivers: what is told of a lane, over restarts, and what bad receivers can do. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { ApiClient } from '../support/api-client.ts'
import { createWorkspace, type DaemonOptions, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type HttpSink, startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { verifiedSignature } from '../support/webhook.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const status = async (api: ApiClient) =>
  Object((await api.api('GET', '/v1/alerts')).body.status) as {
    pending_alerts: number
    last_sent_ts: string | null
    last_failure: { code: string; message: string } | null
  }

async function started(t: Test, options: DaemonOptions = {}): Promise<TestDaemon> {
  const daemon = await startDaemon(options)
  t.teardown(() => daemon.close())
  return daemon
}

async function sinkFor(t: Test): Promise<HttpSink> {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  return sink
}

/** Its address. */
async function receiverThat(t: Test, does: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    does(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A pipe whose destination refuses every message for good. */
async function brokenLane(api: ApiClient, target: HttpSink, pipeName = 'orders'): Promise<[string, string]> {
  target.respondWith(() => ({ status: 400, body: 'no' }))
  const pipe = await api.createPipe({ pipe_name: pipeName })
  const destination = await api.createDestination(pipe, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'crm <!channel>',
    destination_config: { url: target.url },
  })
  await api.ingest(pipe, { n: 1 })
  return [pipe, destination]
}

const typesOf = (sink: HttpSink) => sink.deliveries.map(({ text }) => JSON.parse(text).type)

t.test('a refused message, then a recovery: each told once, signed', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url, secret })
  const [pipe, destination] = await brokenLane(daemon, target)
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  const [first] = receiver.deliveries
  t.ok(verifiedSignature(first!, secret), 'the signature is right')
  t.notOk(
    verifiedSignature({ ...first!, body: Buffer.concat([first!.body, Buffer.from(' ')]) }, secret),
    'control',
  )
  const alert = JSON.parse(first!.text)
  t.match(alert, {
    type: 'lane.stuck',
    workspace: { id: daemon.workspaceId, name: 'default' },
    pipe: { id: pipe, name: 'orders' },
    destination: { id: destination, name: 'crm <!channel>', type: 'destination_http_endpoint' },
    held_back: 0,
    lane: { attempts: 1, error: { code: 'http_400', fault: 'records' } },
    message: /^orders → crm <!channel> is stuck: the destination rejects a message: .*400/,
  })
  t.equal(first!.headers['webhook-id'], alert.alert_id)
  target.respondWith(() => ({}))
  await daemon.api('POST', `/v1/pipes/${pipe}/destinations/${destination}/retry-now`)
  await until('the recovery arrives', () => receiver.deliveries.length > 1)
  t.same(typesOf(receiver), ['lane.stuck', 'lane.recovered'])
  await until('it is noted as sent', async () => (await status(daemon)).pending_alerts === 0)
  t.ok((await status(daemon)).last_sent_ts)
})

t.test('records parked at a pipe: one alert for those of a minute', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url, events: ['pipe.parked', 'lane.stuck'] })
  await brokenLane(daemon, target)
  // The first check reports nothing that was parked before.
  await until('the lanes are checked', () => receiver.deliveries.length > 0)
  const settings = { pipe_schema: { required: ['n'] }, pipe_schema_on_mismatch: 'park' }
  const pipe = await daemon.createPipe({ pipe_name: 'checked', ...settings })
  for (const records of [
    [{ n: 1 }, { a: 1 }],
    [{ a: 2 }, { a: 3 }],
  ])
    await daemon.ingest(pipe, records)
  await until('the alert arrives', () => receiver.deliveries.length > 1)
  const alert = JSON.parse(receiver.deliveries[1]!.text)
  t.match(alert, {
    type: 'pipe.parked',
    pipe: { id: pipe, name: 'checked' },
    count: 3,
    message: 'checked: 3 records parked at the pipe for not matching its schema.',
  })
  t.notOk('destination' in alert)
})

t.test('a message of Slack mentions nobody', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  await daemon.api('PUT', '/v1/alerts', { url: `${receiver.url}/services/T/B/x`, format: 'slack' })
  await brokenLane(daemon, target)
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  const { text, blocks } = JSON.parse(receiver.deliveries[0]!.text)
  t.match(text, /^orders → crm &lt;!channel&gt; is stuck/)
  t.equal(blocks[0].text.text, text)
  t.notOk(receiver.deliveries[0]!.text.includes('<!'))
})

t.test('only what was chosen is told', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url, events: ['lane.stalled'] })
  const [pipe] = await brokenLane(daemon, target)
  const other = await daemon.createDestination(pipe, {
    destination_type: 'destination_http_endpoint',
    destination_max_retry_seconds: 1,
    destination_config: { url: target.url },
    start_from: 'earliest',
  })
  await until(
    'the other lane has stalled',
    async () => (await daemon.lane(pipe, other)).lane_state === 'stalled',
  )
  await until('that is told', () => receiver.deliveries.length > 0)
  t.same(typesOf(receiver), ['lane.stalled'])
})

t.test('a kill is told after the start, a stop is not; what was told stays told', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url })
  const [pipe, destination] = await brokenLane(daemon, target)
  await until('the alert arrives', () => receiver.deliveries.length > 0)
  await until('it is noted', async () => (await status(daemon)).pending_alerts === 0)
  await daemon.kill()
  await daemon.start()
  await until('the crash is told', () => receiver.deliveries.length > 1)
  t.same(
    typesOf(receiver),
    ['lane.stuck', 'daemon.restarted_after_crash'],
    'the stuck lane is not told again',
  )
  const crash = JSON.parse(receiver.deliveries[1]!.text)
  t.ok(Date.parse(crash.previous_started_ts) < Date.now())
  await until('it is noted', async () => (await status(daemon)).pending_alerts === 0)
  t.equal(await daemon.stop(), 0)
  await daemon.start()
  target.respondWith(() => ({}))
  await until(
    'the lane is tried again',
    async () => {
      await daemon.api('POST', `/v1/pipes/${pipe}/destinations/${destination}/retry-now`)
      return receiver.deliveries.length > 2
    },
    { everyMs: 500 },
  )
  t.same(typesOf(receiver), ['lane.stuck', 'daemon.restarted_after_crash', 'lane.recovered'])
})

t.test('what could not be sent is sent later, under its id; a kill in between loses nothing', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  receiver.respondWith(() => ({ status: 500, body: 'not now' }))
  const events = ['lane.stuck']
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url, secret, events })
  await brokenLane(daemon, target)
  const failure = await until('the failure is shown', async () => (await status(daemon)).last_failure)
  t.match(failure, { code: 'http_500', message: 'The receiver responded 500. Response: not now' })
  t.equal((await status(daemon)).pending_alerts, 1)
  await daemon.kill()
  receiver.respondWith(() => ({}))
  await daemon.start()
  await until('it is sent', async () => (await status(daemon)).pending_alerts === 0)
  const ids = new Set(receiver.deliveries.map(({ headers }) => headers['webhook-id']))
  t.equal(ids.size, 1)
  t.ok(verifiedSignature(receiver.deliveries.at(-1)!, secret))
})

t.test('a receiver that hangs or sends for ever holds up no other workspace', async (t) => {
  const [daemon, receiver, target] = [await started(t), await sinkFor(t), await sinkFor(t)]
  const endless = await receiverThat(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    const more = () => {
      while (!socket.destroyed && socket.write(`10000\r\n${'x'.repeat(65_536)}\r\n`));
    }
    socket.on('drain', more)
    more()
  })
  const hanging = await receiverThat(t, () => {})
  const [first, second] = [
    await createWorkspace(daemon.dataDir, 'first'),
    await createWorkspace(daemon.dataDir, 'second'),
  ]
  const [asFirst, asSecond] = [daemon.as(first.api_key), daemon.as(second.api_key)]
  await asFirst.api('PUT', '/v1/alerts', { url: hanging })
  await asSecond.api('PUT', '/v1/alerts', { url: endless })
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url })
  await brokenLane(asFirst, target)
  await brokenLane(asSecond, target)
  await brokenLane(daemon, target)
  await until('the good receiver has its alert', () => receiver.deliveries.length > 0)
  t.same(typesOf(receiver), ['lane.stuck'], 'and nothing of the other workspaces')
  t.equal(JSON.parse(receiver.deliveries[0]!.text).workspace.id, daemon.workspaceId)
  const hung = await until('the hanging one has failed', async () => (await status(asFirst)).last_failure)
  t.match(hung, { code: 'timeout' })
  await until('the endless one was cut off', async () => (await status(asSecond)).last_sent_ts)
  t.equal((await daemon.api('GET', '/v1/ready', undefined, { key: null })).status, 200)
})

t.test('with two workspaces, alerts go to no private address', async (t) => {
  const daemon = await started(t, { env: { PIPECTL_EGRESS_PRIVATE: 'auto' } })
  const receiver = await sinkFor(t)
  await daemon.api('PUT', '/v1/alerts', { url: receiver.url })
  t.match((await daemon.api('POST', '/v1/alerts/test')).body, { ok: true }, 'control: alone it may')
  await createWorkspace(daemon.dataDir, 'second')
  const denied = await until('a second workspace is noticed', async () => {
    const { body } = await daemon.api('POST', '/v1/alerts/test')
    return body.ok === false && body
  })
  t.match(denied, { ok: false, status: null })
  const seen = receiver.deliveries.length
  t.match((await daemon.api('PUT', '/v1/alerts', { url: receiver.url })).body.errors, {
    url: /private|egress/,
  })
  t.equal(receiver.deliveries.length, seen)
})
