import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { copyFreshDataDir, startDaemon, TestDaemon } from '../support/daemon.ts'
import { connectRaw, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon({ env: { PIPECTL_DATA_LISTEN: '127.0.0.1:0' } })
t.teardown(() => daemon.close())

async function at(base: string, method: string, path: string, key: string | null = daemon.apiKey) {
  const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` }
  const answer = await fetch(`${base}${path}`, { method, headers })
  const text = await answer.text()
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    code: text.startsWith('{') ? JSON.parse(text).error : '',
  }
}

t.test('health is on both surfaces, without a key; a HEAD has its length and no body', async (t) => {
  for (const base of [daemon.url, daemon.dataUrl]) {
    const answer = await at(base, 'GET', '/v1/health', null)
    t.equal(answer.status, 200)
    const body = JSON.parse(answer.text)
    t.same([Object.keys(body), body.status], [['status', 'timestamp'], 'ok'])
    t.match(body.timestamp, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    const head = await at(base, 'HEAD', '/v1/health', null)
    t.same(
      [head.status, head.text, head.headers.get('content-length')],
      [200, '', String(answer.text.length)],
    )
  }
})

t.test('ready is on both surfaces, without a key', async (t) => {
  for (const base of [daemon.url, daemon.dataUrl]) {
    const answer = await at(base, 'GET', '/v1/ready', null)
    t.same([answer.status, JSON.parse(answer.text)], [200, { status: 'ready' }])
  }
})

t.test('a second address serves ingest and pull alone; they leave the first', async (t) => {
  const pipe = await daemon.createPipe({ pipe_name: 'surfaces' })
  t.equal((await at(daemon.dataUrl, 'GET', `/v1/ingest/${pipe}`)).status, 200)
  t.same((await at(daemon.dataUrl, 'GET', '/v1/pull/x')).code, 'invalid_destination_id')
  t.same((await at(daemon.url, 'GET', `/v1/ingest/${pipe}`)).code, 'not_found')
  t.same((await at(daemon.url, 'GET', '/v1/pull/x')).code, 'not_found')
  t.same((await at(daemon.dataUrl, 'GET', '/v1/pipes')).code, 'not_found')
  t.same((await at(daemon.dataUrl, 'GET', '/openapi/management-v1.openapi.yaml')).code, 'not_found')
  t.equal((await at(daemon.url, 'GET', '/v1/pipes')).status, 200)
})

t.test('unknown paths are 404 not_found, known ones with another method 405 with Allow', async (t) => {
  for (const path of ['/', '/v1', '/v1/pipes/x/y/z', '/v2/pipes', '/v1/health/', '/v1/Pipes']) {
    const answer = await at(daemon.url, 'GET', path, null)
    t.same(
      [answer.status, answer.code, answer.headers.get('content-type')],
      [404, 'not_found', 'application/json; charset=utf-8'],
      path,
    )
  }
  for (const [method, path, allow] of [
    ['DELETE', '/v1/pipes', 'GET, HEAD, POST'],
    ['POST', '/v1/health', 'GET, HEAD'],
    ['PUT', '/v1/pipes/x', 'GET, HEAD, PATCH, DELETE'],
    ['OPTIONS', '/v1/api-keys', 'GET, HEAD, POST'],
  ] as const) {
    const answer = await at(daemon.url, method, path, null)
    t.same([answer.status, answer.code], [405, 'method_not_allowed'], `${method} ${path}`)
    t.same(answer.headers.get('allow')?.split(', ').sort(), allow.split(', ').sort())
  }
})

t.test('management: auth before everything, the same 401 for every bad key', async (t) => {
  const bodies = new Set<string>()
  for (const key of [null, '', 'x', 'ppl1_x', `${daemon.apiKey}x`]) {
    for (const [method, path] of [
      ['GET', '/v1/pipes'],
      ['GET', '/v1/pipes/not-a-uuid'],
      ['POST', '/v1/pipes'],
      ['HEAD', '/v1/pipes'],
    ] as const) {
      const answer = await at(daemon.url, method, path, key)
      t.same([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer'])
      if (method !== 'HEAD') bodies.add(answer.text)
    }
  }
  t.equal(bodies.size, 1)
})

t.test('management bodies: limit, content type, JSON', async (t) => {
  const send = (body: string | Buffer, headers: Record<string, string> = {}) =>
    daemon.api<{ error: string; errors: Record<string, string> }>('POST', '/v1/pipes', body, { headers })
  for (const body of ['{', '[]', '1', 'null', '"x"', Buffer.from([0x7b, 0xff, 0x7d]), '['.repeat(50_000)]) {
    const answer = await send(body)
    t.same(
      [answer.status, answer.body.error, Object.keys(answer.body.errors)],
      [400, 'validation_error', ['']],
    )
  }
  const typed = await send('{"pipe_name":"x"}', { 'content-type': 'text/plain' })
  t.same([typed.status, Object.keys(typed.body.errors)], [400, ['']])
  t.equal((await send('{"pipe_name":"untyped"}', { 'content-type': '' })).status, 201)
  const big = await send(JSON.stringify({ pipe_name: 'x'.repeat(1024 * 1024) }))
  t.same([big.status, big.body.error], [413, 'payload_too_large'])
})

t.test(
  'every response says nosniff and no-store; 204 has no Content-Length (trap of hyper-express 6.18)',
  async (t) => {
    const pipe = await daemon.createPipe({ pipe_name: 'deleted' })
    const answer = await sendRaw(
      daemon.url,
      `DELETE /v1/pipes/${pipe} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.apiKey}\r\n\r\n`,
    )
    t.same([answer.status, answer.body, answer.closed], [204, '', false])
    t.match(answer.headers, { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
    t.notOk('content-length' in answer.headers)
  },
)

t.test(
  'an address in use: the second daemon says so in one line and exits 75 (trap: SO_REUSEPORT)',
  async (t) => {
    const plain = net.createServer().listen(0, '127.0.0.1')
    await once(plain, 'listening')
    t.teardown(() => plain.close())
    const address = plain.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    for (const taken of [new URL(daemon.url).host, `127.0.0.1:${address.port}`]) {
      const second = new TestDaemon({ args: ['--listen', taken] })
      t.teardown(() => second.close())
      await t.rejects(startAt(second), /in use/)
      t.equal(await second.exit, 75)
    }
    t.equal((await at(daemon.url, 'GET', '/v1/health', null)).status, 200, 'the running one is undisturbed')
  },
)

async function startAt(second: TestDaemon) {
  await copyFreshDataDir(second.dataDir)
  await second.start()
}

t.test(
  'SIGTERM: a request under way is answered, waiting pulls get 204, new connections are refused',
  async (t) => {
    const other = await startDaemon()
    t.teardown(() => other.close())
    const pipe = await other.createPipe({ pipe_name: 'stopping' })
    const lane = await other.createDestination(pipe, {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    const pull = other.api('GET', `/v1/pull/${lane}?wait_ms=30000`)
    const idle = await connectRaw(other.url)
    idle.write('GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
    t.equal((await idle.answer()).status, 200)
    const stopped = other.stop()
    t.equal((await pull).status, 204)
    t.equal(await stopped, 0)
    await idle.closed
    await until('connections are refused', async () => {
      try {
        await connectRaw(other.url)
        return false
      } catch {
        return true
      }
    })
  },
)
