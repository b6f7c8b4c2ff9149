/**
 * The guarantees of every engine (`src/api/http/engine.ts`), each in this process: a request that takes too long
 * ends, a malformed one runs nothing.
 */
import net from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEngine } from '../../src/api/http/open-engine.ts'
import type { ApiReply, ApiRequest, Route } from '../../src/api/http/route.ts'
import { openHttpServer } from '../../src/api/http/server.ts'
import { createAuthenticate } from '../../src/ingest/directory/directory-cache.ts'
import type { Ingest } from '../../src/ingest/ingest.ts'
import type { Directory } from '../../src/metadata/directory-source.ts'
import { testedEngine } from '../support/http-engine.ts'
import { connectRaw, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const log = pino({ level: 'silent' })
/** Where no binding loads (Node 22 and 24 with glibc below 2.38) TEST_HTTP_ENGINE says that there is one engine. */
const engines = testedEngine === 'node' ? (['node'] as const) : (['uws', 'node'] as const)
const directory: Directory = {
  pipe: () => undefined,
  key: () => undefined,
  refreshPipe: async () => {},
  refreshKey: async () => {},
  takeUsedKeys: () => [],
}
const noIngest = () => {
  throw new Error('not in this test')
}
const ingest: Ingest = {
  post: noIngest,
  hook: noIngest,
  hint: noIngest,
  preflight: noIngest,
  allowOrigin: () => null,
  answeredWith: () => {},
}

async function openServer(name: 'uws' | 'node') {
  let served = 0
  const sent: boolean[] = []
  let release = () => {}
  const route = (
    method: 'GET' | 'POST',
    path: string,
    handler: (request: ApiRequest) => Promise<ApiReply>,
  ): Route => ({ method, path, operationId: path, surface: 'all', auth: 'none', handler })
  const routes = [
    route('GET', '/v1/health', async () => ({ status: 200 })),
    route('POST', '/count', async () => ({ status: 200, body: { served: ++served } })),
    route('POST', '/echo/{name}', async ({ body, params, query }) => ({
      status: 200,
      body: { body, params, query: query.toString() },
    })),
    route(
      'GET',
      '/held',
      () => new Promise((resolve) => (release = () => resolve({ status: 200, body: {} }))),
    ),
    route('GET', '/large', async ({ query }) => ({
      status: 200,
      // By default more than the sockets of both sides hold.
      body: Buffer.alloc(Number(query.get('bytes') ?? 48_000_000), 'x'),
      onSent: (wasSent) => sent.push(wasSent),
    })),
    route('GET', '/list', async () => ({ status: 200, body: { list: 'x'.repeat(48_000_000) } })),
  ]
  const server = await openHttpServer({
    engine: await openEngine(name, log),
    surfaces: [{ name: 'listen', listen: { host: '127.0.0.1', port: 0 }, management: true, data: false }],
    routes,
    ingest,
    authenticate: createAuthenticate(directory),
    log,
  })
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${server.addresses[0]!.port}`
  return { server, url, served: () => served, sent, release: () => release() }
}

const json = (length: number) => `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n`

/** Asks for `path` and takes so many bytes of the response each half second. Whether the connection stands. */
function readAtRate(t: Test, url: string, path: string, bytes: number): () => boolean {
  const { hostname, port } = new URL(url)
  const socket = net.connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  // Without a `data` listener nothing is read but what is asked for.
  const timer = setInterval(() => bytes > 0 && socket.read(bytes), 500)
  t.teardown(() => {
    clearInterval(timer)
    socket.destroy()
  })
  return () => !socket.destroyed
}

for (const name of engines) {
  t.test(`${name}: what is too slow ends with its connection, a handler may take its time`, async (t) => {
    const { url, server, release } = await openServer(name)
    const slow = [
      '',
      'GET /v1/health HTTP/1.1\r\nHost: ',
      `POST /echo/a HTTP/1.1\r\n${json(20)}\r\n{"a":`,
      'POST /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"',
    ]
    const held = await connectRaw(url)
    held.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n')
    await until('it is under way', () => server.requestsUnderWay() === 1)
    const idle = await connectRaw(url)
    idle.write('GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
    t.equal((await idle.answer()).status, 200)
    const connections = await Promise.all(slow.map(() => connectRaw(url)))
    for (const [index, connection] of connections.entries()) connection.write(slow[index]!)
    await Promise.all(connections.map(({ closed }) => closed))
    // uWebSockets keeps one that has been served.
    if (name === 'node') await idle.closed
    for (const connection of connections) t.equal((await connection.answer()).status, 0)
    release()
    t.equal((await held.answer()).status, 200)
    for (const connection of [held, idle]) connection.reset()
  })

  t.test(`${name}: a response that is read too slowly ends with its connection`, async (t) => {
    const { url, server, sent } = await openServer(name)
    // Below 16 KiB a second, nothing at all, and far above; of a response that is waited for and of another.
    for (const path of ['/large', '/list']) for (const bytes of [5 * 1024, 0]) readAtRate(t, url, path, bytes)
    const isFineServed = readAtRate(t, url, '/large', 200 * 1024)
    await until('all are under way', () => server.requestsUnderWay() === 5)
    await until('the slow ones are given up', () => server.requestsUnderWay() === 1)
    t.same(sent, [false, false])
    t.ok(isFineServed(), 'control: one that reads enough is served on')
  })

  t.test(`${name}: a client that resets in the middle of its response was not served`, async (t) => {
    const { url, server, sent } = await openServer(name)
    const connection = await connectRaw(url)
    const stall = connection.stall()
    connection.write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
    await stall
    connection.reset()
    await until('its end was seen', () => server.requestsUnderWay() === 0)
    t.same(sent, [false])
    const whole = await connectRaw(url)
    whole.write('GET /large?bytes=1000000 HTTP/1.1\r\nHost: x\r\n\r\n')
    t.equal((await whole.answer()).body.length, 1_000_000)
    await until('that is seen too', () => sent.length === 2)
    t.same(sent, [false, true])
    whole.reset()
  })

  t.test(`${name}: parameters, query, an empty body, and one that waits for 100 Continue`, async (t) => {
    const { url } = await openServer(name)
    const connection = await connectRaw(url)
    const ask = async (path: string, fields: string, body: string) => {
      connection.write(`POST ${path} HTTP/1.1\r\n${fields}\r\n${body}`)
      return await connection.answer()
    }
    t.same(JSON.parse((await ask('/echo/%41-b?x=1&y=%20', json(7), '{"a":1}')).body), {
      body: { a: 1 },
      params: { name: '%41-b' },
      query: 'x=1&y=+',
    })
    t.same(JSON.parse((await ask('/echo/a', json(0), '')).body), { params: { name: 'a' }, query: '' })
    t.equal((await ask('/echo/', json(0), '')).status, 404)
    t.equal((await ask('/echo/a/b', json(0), '')).status, 404)
    const patient = await ask('/echo/a', `${json(7)}Expect: 100-continue\r\n`, '{"b":2}')
    t.match(JSON.parse(patient.body), { body: { b: 2 } })
    connection.reset()
  })
}

const count = (fields = json(0)) => `POST /count HTTP/1.1\r\n${fields}\r\n`
const manyHeaders = (headers: number) => count(`${json(0)}${'A: b\r\n'.repeat(headers)}`)
/** Sound HTTP that one of the engines does not serve. The native bindings differ: one answers, the other does not see a request. */
const unusual = {
  'HTTP/1.0': `POST /count HTTP/1.0\r\n${json(0)}\r\n`,
  'HTTP/1.0 without Host': 'POST /count HTTP/1.0\r\nContent-Length: 0\r\n\r\n',
  'absolute form': `POST http://x/count HTTP/1.1\r\n${json(0)}\r\n`,
  'absolute form of another host': `POST http://y/count HTTP/1.1\r\n${json(0)}\r\n`,
  'more than 48 headers': manyHeaders(60),
  'more than 100 headers': manyHeaders(150),
  'pipelined requests': `GET /held HTTP/1.1\r\nHost: x\r\n\r\n${count()}`,
}

t.test('node: HTTP/1.0, absolute form and many headers are served or get the status for it', async (t) => {
  const { url, served } = await openServer('node')
  const { 'pipelined requests': _, ...requests } = unusual
  for (const [what, request] of Object.entries(requests)) {
    const connection = await connectRaw(url)
    connection.write(request)
    const expected = { 'more than 100 headers': 431, 'absolute form of another host': 400 }[what] ?? 200
    t.equal((await connection.answer()).status, expected, what)
    if (expected !== 200 || what.startsWith('HTTP/1.0')) await connection.closed
    connection.reset()
  }
  t.equal(served(), 4)
})

if (engines.length > 1) {
  t.test('uws: what it does not serve ends with its connection, and is not executed', async (t) => {
    const { url, served, release } = await openServer('uws')
    const statuses = await Promise.all(
      Object.entries(unusual).map(async ([what, request]) => {
        const connection = await connectRaw(url)
        connection.write(request)
        const { status } = await connection.answer()
        // The newer binding takes up to 98 headers.
        if (status === 200 && what === 'more than 48 headers') connection.reset()
        else t.ok([0, 400, 431, 505].includes(status), `${status} to ${what}`)
        await connection.closed
        return status
      }),
    )
    release()
    t.equal(served(), statuses.filter((status) => status === 200).length)
    t.match(await sendRaw(url, count()), { status: 200 }, 'control: an ordinary request is executed')
  })
}

t.test(
  'node: what its parser rejects gets the same body as every error, and nothing after it runs',
  async (t) => {
    const { url, served } = await openServer('node')
    const next = `POST /count HTTP/1.1\r\n${json(0)}\r\n`
    t.equal((await sendRaw(url, next)).status, 200)
    for (const [request, status, error] of [
      [`GARBAGE\r\n\r\n${next}`, 400, 'bad_request'],
      [`GET /v1/health HTTP/1.1\r\nHost x\r\n\r\n${next}`, 400, 'bad_request'],
      [`GET /v1/health HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n${next}`, 400, 'bad_request'],
      [`GET /v1/health HTTP/1.1\r\n\r\n${next}`, 400, 'bad_request'],
      [
        `POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}${next}`,
        400,
        'bad_request',
      ],
      [
        `POST /count HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${next}`,
        400,
        'bad_request',
      ],
      [
        `POST /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n${next}`,
        400,
        'bad_request',
      ],
      [
        `GET /v1/health HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(120)}\r\n${next}`,
        431,
        'headers_too_large',
      ],
      [
        `GET /v1/health HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(20_000)}\r\n\r\n${next}`,
        431,
        'headers_too_large',
      ],
    ] as const) {
      const connection = await connectRaw(url)
      connection.write(request)
      const answer = await connection.answer()
      const what = request.slice(0, 80)
      t.same([answer.status, answer.headers.connection], [status, 'close'], what)
      t.equal(JSON.parse(answer.body).error, error, what)
      t.match(answer.headers, { 'content-type': /json/, 'x-content-type-options': 'nosniff' })
      await connection.closed
      t.equal((await connection.answer()).status, 0, what)
    }
    t.equal(served(), 1)
  },
)

t.test(
  'node: requests sent ahead are answered in their order; a flood of them ends the connection',
  async (t) => {
    const { url, served } = await openServer('node')
    const connection = await connectRaw(url)
    const request = `POST /count HTTP/1.1\r\n${json(0)}\r\n`
    for (let i = 0; i < 3; i++) connection.write(request)
    for (let i = 1; i <= 3; i++) t.equal(JSON.parse((await connection.answer()).body).served, i)
    connection.reset()
    const flood = await connectRaw(url)
    flood.write(`GET /held HTTP/1.1\r\nHost: x\r\n\r\n${request.repeat(200)}`)
    await flood.closed
    t.ok(served() < 100)
  },
)
