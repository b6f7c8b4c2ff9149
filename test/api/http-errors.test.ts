import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { AddressInUseError, ListenError } from '../../src/api/http/listen.ts'
import { openEngine } from '../../src/api/http/open-engine.ts'
import type { ApiReply, Route } from '../../src/api/http/route.ts'
import { openHttpServer } from '../../src/api/http/server.ts'
import { ApiError } from '../../src/contract/errors.ts'
import { createQuota } from '../../src/ingest/admission.ts'
import { openBodyParsers } from '../../src/ingest/body-parsers.ts'
import { createClientIp } from '../../src/ingest/client-ip.ts'
import { createAuthenticate } from '../../src/ingest/directory/directory-cache.ts'
import { createIngest } from '../../src/ingest/ingest.ts'
import { IngestObserved } from '../../src/ingest/observed.ts'
import { createBodyMemory } from '../../src/ingest/shared-counters.ts'
import { UsageCounter } from '../../src/ingest/usage.ts'
import type { Directory } from '../../src/metadata/directory-source.ts'
import { Semaphore } from '../../src/platform/semaphore.ts'
import { call } from '../support/daemon.ts'
import { testedEngine } from '../support/http-engine.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** The server alone, in this process, with routes of the test's own: for what a sound daemon never does. */
const lines: Record<string, unknown>[] = []
const sink = new Writable({
  write: (line, _encoding, done) => {
    lines.push(JSON.parse(String(line)))
    done()
  },
})
const log = pino({ level: 'info' }, sink)
const directory: Directory = {
  pipe: () => undefined,
  key: () => undefined,
  refreshPipe: async () => {},
  refreshKey: async () => {},
  takeUsedKeys: () => [],
}
const refuse = () => Promise.reject(new Error('not in this test'))
const authenticate = createAuthenticate(directory)
const ingest = createIngest({
  directory,
  authenticate,
  appender: { append: refuse, findRepeat: refuse, drain: refuse },
  geo: { lookup: () => null, close: () => {} },
  clientIp: createClientIp([]),
  quota: createQuota({}, 0),
  usage: new UsageCounter(new Map()),
  observed: new IngestObserved(),
  bodyMemory: createBodyMemory(1 << 20),
  decoders: new Semaphore(1),
  parking: { park: refuse, unpark: refuse },
  parsers: openBodyParsers(1 << 26),
  maxBodyBytes: 1000,
  maxRecords: 100,
  maxKeys: 100,
  now: Date.now,
})
function route(path: string, handler: () => Promise<ApiReply>): Route {
  return { method: 'GET', path, operationId: path, surface: 'all', auth: 'none', handler }
}

const cookies: ApiReply = {
  status: 200,
  body: Buffer.from('body{}'),
  headers: [
    ['Set-Cookie', 'a=1'],
    ['Set-Cookie', 'b=2'],
    ['Cache-Control', 'public, max-age=60'],
    ['Content-Type', 'text/css'],
  ],
}

let release = (_reply: ApiReply | Promise<ApiReply>) => {}
const routes = [
  route('/broken', () => Promise.reject(new Error('the secret is 4711'))),
  route('/known', () => Promise.reject(new ApiError('duplicate_origin', { details: { extra: 1 } }))),
  route('/cookies', async () => cookies),
  { ...route('/data-only', async () => cookies), surface: 'data' as const },
  { ...route('/keyed', async () => cookies), auth: 'key' as const },
  route('/held', () => new Promise<ApiReply>((resolve) => (release = resolve))),
]
const engine = await openEngine(testedEngine, log)
const listen = { host: '127.0.0.1', port: 0 }
const open = (address = listen) =>
  openHttpServer({
    engine,
    surfaces: [{ name: 'listen', listen: address, management: true, data: true }],
    routes,
    ingest,
    authenticate,
    log,
  })
const server = await open()
t.teardown(() => server.close())
const port = server.addresses[0]!.port
const url = `http://127.0.0.1:${port}`

t.test('what is ours is 500 server_error: logged with its stack and an id, told without', async (t) => {
  const answer = await call('GET', `${url}/broken`, {})
  t.same([answer.status, answer.body.error], [500, 'server_error'])
  t.notMatch(answer.text, /4711|Error:|\.ts/)
  const line = lines.find((one) => one.request_id === answer.body.request_id)
  t.match(line, { msg: 'http.failed', where: '/broken', err: { stack: /4711/ } })
  t.equal(
    (await call('GET', `${url}/known`, {})).body.extra,
    1,
    'an ApiError is the caller’s and keeps its details',
  )
})

t.test(
  'a handler that is slower than its client does no harm (trap: touching a response after its abort)',
  async (t) => {
    const connection = await connectRaw(url)
    connection.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n')
    await until('it is under way', () => server.requestsUnderWay() === 1)
    connection.reset()
    await until('its end was seen', () => server.requestsUnderWay() === 0)
    release({ status: 200, body: {} })
    t.equal((await call('GET', `${url}/known`, {})).status, 409)
  },
)

t.test(
  'a route may set several cookies, and its own type and cache headers replace the usual ones',
  async (t) => {
    const answer = await call('GET', `${url}/cookies`, {})
    t.same(answer.headers['set-cookie'], ['a=1', 'b=2'])
    t.match(answer.headers, { 'cache-control': 'public, max-age=60', 'content-type': 'text/css' })
    t.equal(answer.headers['x-content-type-options'], 'nosniff')
  },
)

t.test('a route is served on its own surface alone', async (t) => {
  t.equal((await call('GET', `${url}/data-only`, {})).status, 200)
  const management = await openHttpServer({
    engine,
    surfaces: [{ name: 'listen', listen, management: true, data: false }],
    routes,
    ingest,
    authenticate,
    log,
  })
  t.teardown(() => management.close())
  const base = `http://127.0.0.1:${management.addresses[0]!.port}`
  t.equal((await call('GET', `${base}/data-only`, {})).status, 404)
  t.equal((await call('GET', `${base}/cookies`, {})).status, 200)
})

t.test('an address that is taken or not ours is told apart before anything listens', async (t) => {
  await t.rejects(open({ host: '127.0.0.1', port }), AddressInUseError)
  await t.rejects(open({ host: '192.0.2.1', port: 0 }), ListenError)
  await t.rejects(open({ host: 'no-such-host.invalid', port: 0 }), ListenError)
})

t.test('stopAccepting: what is under way is answered, and its connection then closed', async (t) => {
  const stopping = await open()
  const base = `http://127.0.0.1:${stopping.addresses[0]!.port}`
  const connection = await connectRaw(base)
  connection.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n')
  await until('it is under way', () => stopping.requestsUnderWay() === 1)
  stopping.stopAccepting()
  await t.rejects(connectRaw(base))
  release({ status: 200, body: { late: true } })
  t.same((await connection.answer()).body, '{"late":true}')
  await connection.closed
  await stopping.idle()
  stopping.close()
})

t.test('stopAccepting: a request on an open connection, and one that fails meanwhile, are 503', async (t) => {
  const stopping = await open()
  const base = `http://127.0.0.1:${stopping.addresses[0]!.port}`
  const [held, idle] = [await connectRaw(base), await connectRaw(base)]
  const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  idle.write(ask('/keyed'))
  t.equal((await idle.answer()).status, 401, 'the connection is used, and stays open')
  held.write(ask('/held'))
  await until('it is under way', () => stopping.requestsUnderWay() === 1)
  await stopping.stopAccepting()
  const before = lines.length
  idle.write(ask('/keyed'))
  const failing = Promise.reject(new Error('driver has already been destroyed'))
  failing.catch(() => {})
  release(failing)
  const outcomes = [
    [idle, /"error":"storage_unavailable".*is stopping\. Nothing was done/],
    [held, /"error":"storage_unavailable".*It is unknown whether this was done/],
  ] as const
  for (const [connection, body] of outcomes) {
    const answer = await connection.answer()
    t.equal(answer.status, 503)
    t.equal(answer.headers['retry-after'], '2')
    t.match(answer.body, body)
    await connection.closed
  }
  t.same(
    lines.slice(before).map(({ msg, level }) => [msg, level]),
    [['http.interrupted', 40]],
    'it is no error of the program',
  )
  await stopping.idle()
  stopping.close()
})
