/** HTTP endpoint driver through its port, against a real server. */
import { createHmac } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test as TapTest } from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { httpEndpoint } from '../../../src/destinations/http-endpoint/driver.ts'
import { responseError, retryAfterMs } from '../../../src/destinations/http-endpoint/response.ts'
import { version } from '../../../src/platform/version.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { type HttpSink, type SinkAnswer, startHttpSink } from '../../support/http-sink.ts'
import { startProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

async function start(t: TapTest, options = {}): Promise<HttpSink> {
  const sink = await startHttpSink(options)
  t.teardown(() => sink.stop())
  return sink
}
function open(t: TapTest, url: string, config: Record<string, unknown> = {}) {
  const driver = httpEndpoint.open(
    makeSpec('destination_http_endpoint', { url, ...config }),
    openSettings,
    anyKey,
  )
  t.teardown(() => driver.close())
  return driver
}
async function failure(work: Promise<unknown>): Promise<DeliveryError> {
  try {
    await work
  } catch (error) {
    if (error instanceof DeliveryError) return error
    throw error
  }
  throw new Error('the delivery succeeded')
}
const records = ['{"n":12345678901234567890, "d":1.10}', '{"u":"ü\\n"}', '{ }']
const batch = makeBatch([[records[0], records[1]], [records[2]]], 7)

t.test('body_format: the records keep their own text in all three', async (t) => {
  const sink = await start(t)
  const expected: Record<string, [string, string][]> = {
    json_array: [[`[${records.join(',')}]`, 'application/json']],
    ndjson: [[records.map((record) => `${record}\n`).join(''), 'application/x-ndjson']],
    json_object: records.map((record) => [record, 'application/json']),
  }
  for (const [body_format, requests] of Object.entries(expected)) {
    const from = sink.deliveries.length
    await open(t, `${sink.url}/in?a=1`, { body_format }).deliver(batch, never)
    const got = sink.deliveries.slice(from)
    t.same(
      got.map(({ text, headers }) => [text, headers['content-type']]),
      requests,
      body_format,
    )
    t.ok(got.every(({ method, path }) => method === 'POST' && path === '/in?a=1'))
  }
  await open(t, sink.url).deliver(batch, never)
  t.equal(sink.deliveries.at(-1)?.text, `[${records.join(',')}]`, 'json_array is the default')
})

t.test('method, headers, auth_header, user agent, gzip', async (t) => {
  const sink = await start(t)
  const config = {
    method: 'PUT',
    headers: { 'X-Team': 'blue', Accept: 'text/plain' },
    auth_header: 'Bearer tok',
    compression: 'gzip',
  }
  await open(t, sink.url, config).deliver(batch, never)
  const [delivery] = sink.deliveries
  t.match(delivery, {
    method: 'PUT',
    text: `[${records.join(',')}]`,
    headers: {
      'x-team': 'blue',
      accept: 'text/plain',
      authorization: 'Bearer tok',
      'user-agent': `pipectl/${version()}`,
      'content-encoding': 'gzip',
      'content-length': String(delivery?.body.length),
    },
  })
  t.same([...(delivery?.body.subarray(0, 2) ?? [])], [0x1f, 0x8b])
})

/** Written from the Standard Webhooks text, not with the driver's code. */
function isSigned(delivery: { headers: Record<string, unknown>; body: Buffer }, secret: string): boolean {
  const id = delivery.headers['webhook-id']
  const timestamp = delivery.headers['webhook-timestamp']
  const [version, signature] = String(delivery.headers['webhook-signature']).split(',')
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  // As an application has it: frameworks inflate before it sees the body.
  const isGzip = delivery.headers['content-encoding'] === 'gzip'
  const body = isGzip ? gunzipSync(delivery.body) : delivery.body
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body])
  const isRecent = Math.abs(Date.now() / 1000 - Number(timestamp)) < 300
  return (
    isRecent && version === 'v1' && signature === createHmac('sha256', key).update(signed).digest('base64')
  )
}

/** With another byte at its end, compressed again where it was. */
function longer({ headers, body }: { headers: Record<string, unknown>; body: Buffer }): Buffer {
  const isGzip = headers['content-encoding'] === 'gzip'
  return isGzip
    ? gzipSync(Buffer.concat([gunzipSync(body), Buffer.from(' ')]))
    : Buffer.concat([body, Buffer.from(' ')])
}

t.test(
  'signing_secret: a Standard Webhooks signature; webhook-id is the same for every attempt',
  async (t) => {
    const sink = await start(t)
    const signing_secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`
    for (const config of [
      {},
      { compression: 'gzip' },
      { body_format: 'ndjson' },
      { body_format: 'json_object' },
    ]) {
      const from = sink.deliveries.length
      const driver = open(t, sink.url, { ...config, signing_secret })
      await driver.deliver(batch, never)
      await driver.deliver(batch, never)
      const got = sink.deliveries.slice(from)
      t.ok(
        got.every((delivery) => isSigned(delivery, signing_secret)),
        JSON.stringify(config),
      )
      t.notOk(isSigned({ ...got[0]!, body: longer(got[0]!) }, signing_secret), 'negative control')
      const ids = got.map(({ headers }) => headers['webhook-id'])
      const half = ids.length / 2
      t.same(ids.slice(0, half), ids.slice(half))
      t.equal(new Set(ids).size, half, 'one id per request')
      if (config.body_format !== 'json_object') t.equal(ids[0], batch.identity)
    }
    await open(t, sink.url).deliver(batch, never)
    t.equal(sink.deliveries.at(-1)?.headers['webhook-signature'], undefined)
    t.equal(sink.deliveries.at(-1)?.headers['webhook-id'], batch.identity)
  },
)

t.test(
  'the response decides: 2xx stored; 408, 425, 429, 5xx transient; anything else permanent',
  async (t) => {
    const sink = await start(t)
    const driver = open(t, sink.url)
    const answered = (status: number) => {
      sink.respondWith(() => ({ status, headers: { 'retry-after': '7' } }))
      return driver.deliver(batch, never)
    }
    for (const status of [200, 201, 202, 204, 299]) await answered(status)
    for (const status of [408, 425, 429, 500, 502, 503, 504, 599]) {
      t.match(await failure(answered(status)), {
        class: 'transient',
        code: `http_${status}`,
        retryAfterMs: 7000,
      })
    }
    for (const status of [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451]) {
      const error = await failure(answered(status))
      t.match(error, { class: 'permanent', code: `http_${status}` })
      t.equal(error.failedSeq, status === 401 || status === 405 ? 7 : undefined)
      t.match(error.message, String(status))
    }
  },
)

t.test('Retry-After: seconds, HTTP dates, nonsense', async (t) => {
  const now = Date.UTC(2026, 0, 1)
  t.equal(retryAfterMs('120', now), 120_000)
  t.equal(retryAfterMs('Thu, 01 Jan 2026 00:01:00 GMT', now), 60_000)
  t.equal(retryAfterMs('Wed, 31 Dec 2025 23:00:00 GMT', now), 0)
  t.equal(retryAfterMs(['5', '6'], now), 5000)
  for (const nonsense of [undefined, '', 'soon', '-5', '1.5', '2026-01-01'])
    t.equal(retryAfterMs(nonsense, now), undefined)
})

t.test('redirects are never followed', async (t) => {
  const other = await start(t)
  const sink = await start(t)
  for (const status of [301, 302, 303, 307, 308]) {
    sink.respondWith(() => ({ status, headers: { location: `${other.url}/in?token=secret` } }))
    const error = await failure(open(t, sink.url, { auth_header: 'Bearer tok' }).deliver(batch, never))
    t.match(error, { class: 'permanent', code: `http_${status}`, failedSeq: 7 })
    t.match(error.message, `${other.url}/in`)
    t.notMatch(error.message, /secret/)
  }
  t.equal(other.deliveries.length, 0)
})

t.test('json_object: the first rejected record ends the attempt and its message is named', async (t) => {
  const sink = await start(t)
  sink.respondWith((delivery) => ({ status: delivery.text === records[2] ? 422 : 200 }))
  const error = await failure(open(t, sink.url, { body_format: 'json_object' }).deliver(batch, never))
  t.match(error, { class: 'permanent', code: 'http_422', failedSeq: 8 })
  t.equal(sink.deliveries.length, 3)
  sink.respondWith((delivery) => ({ status: delivery.text === records[0] ? 503 : 200 }))
  t.match(await failure(open(t, sink.url, { body_format: 'json_object' }).deliver(batch, never)), {
    class: 'transient',
  })
  t.equal(sink.deliveries.length, 4)
})

t.test(
  'the error quotes the beginning of the response, without markup, control characters and secrets',
  async (t) => {
    const sink = await start(t)
    const secrets = {
      auth_header: 'Bearer s3cr3t-token',
      signing_secret: 'whsec_c2VjcmV0c2VjcmV0',
      headers: { 'x-api-key': 'key-in-a-header' },
    }
    const said = async (answer: SinkAnswer) => {
      sink.respondWith(() => ({ status: 400, ...answer }))
      return (await failure(open(t, sink.url, secrets).deliver(batch, never))).message
    }
    t.match(await said({ body: 'field x is\r\n\u001b[31m wrong' }), 'Response: field x is [31m wrong')
    t.match(await said({ body: '<html><style>b{}</style><h1>Bad</h1> thing</html>' }), 'Response: Bad thing')
    const echo = await said({
      body: 'auth Bearer s3cr3t-token, s3cr3t-token, whsec_c2VjcmV0c2VjcmV0, key-in-a-header',
    })
    t.notMatch(echo, /s3cr3t|whsec|key-in/)
    t.ok((await said({ body: 'y'.repeat(1_000_000) })).length < 300)
    t.notMatch(await said({ body: 'x', headers: { 'content-encoding': 'gzip' } }), 'Response: ')
  },
)

t.test('a slow endpoint: timeout_ms bounds the whole request, and the lane can end it sooner', async (t) => {
  const sink = await start(t)
  sink.respondWith(() => ({ fault: 'never' }))
  const driver = open(t, sink.url, { timeout_ms: 1000 })
  t.match(await failure(driver.deliver(batch, never)), { class: 'transient', code: 'timeout' })
  const controller = new AbortController()
  const attempt = failure(driver.deliver(batch, controller.signal))
  await until('the second request', () => sink.deliveries.length === 2)
  controller.abort()
  t.match(await attempt, { class: 'transient', code: 'aborted' })
  await until('its connection is gone', () => sink.connections() === 0)
  sink.respondWith(() => ({ delayMs: 50 }))
  await driver.deliver(batch, never)
})

t.test('lost, cut and senseless answers are transient; refused and reset connections too', async (t) => {
  const sink = await start(t)
  const driver = open(t, sink.url)
  for (const fault of ['before', 'garbage'] as const) {
    sink.respondWith(() => ({ fault }))
    t.equal((await failure(driver.deliver(batch, never))).class, 'transient', fault)
  }
  sink.respondWith(() => ({ fault: 'half', body: 'ok' }))
  await driver.deliver(batch, never)
  sink.respondWith(() => ({ status: 500, fault: 'half', body: 'broken' }))
  t.match(await failure(driver.deliver(batch, never)), { code: 'http_500', class: 'transient' })
  await sink.halt()
  t.match(await failure(driver.deliver(batch, never)), { class: 'transient', code: /ECONN|UND_ERR/ })
  t.match(await failure(driver.deliver(batch, never)), { class: 'transient', code: 'ECONNREFUSED' })
  await sink.listen()
  sink.respondWith(() => ({}))
  await driver.deliver(batch, never)
  t.match(await failure(open(t, 'http://no-such-host.invalid/').deliver(batch, never)), {
    class: 'transient',
  })
})

t.test('a network that goes silent or trickles does not hold an attempt beyond its deadline', async (t) => {
  const sink = await start(t)
  const proxy = await startProxy({ host: '127.0.0.1', port: sink.port })
  t.teardown(() => proxy.stop())
  for (const kind of ['black_hole', 'trickle'] as const) {
    proxy.setMode({ kind })
    const driver = open(t, `http://127.0.0.1:${proxy.port}/`, { timeout_ms: 1000 })
    t.match(await failure(driver.deliver(batch, never)), { class: 'transient', code: 'timeout' }, kind)
  }
})

t.test('https: a certificate that is not trusted is rejected', async (t) => {
  const sink = await start(t, { tls: true })
  const error = await failure(open(t, sink.url).deliver(batch, never))
  t.match(error, { class: 'transient', code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  t.equal(sink.deliveries.length, 0)
})

t.test('one keep-alive connection a lane', async (t) => {
  const sink = await start(t)
  const driver = open(t, sink.url)
  for (let round = 0; round < 5; round += 1) await driver.deliver(batch, never)
  t.same([...new Set(sink.deliveries.map(({ connection }) => connection))], [1])
  await driver.close()
  await until('it is closed with the driver', () => sink.connections() === 0)
})

t.test('check: an error response is a failed check, and nothing is posted', async (t) => {
  const sink = await start(t)
  const check = (url: string, settings = openSettings) =>
    httpEndpoint.check(makeSpec('destination_http_endpoint', { url, timeout_ms: 1000 }), settings, never)
  t.match(await check(sink.url), [{ name: 'url_reachable', ok: true }])
  t.same(
    sink.deliveries.map(({ method, body }) => [method, body.length]),
    [['HEAD', 0]],
  )
  for (const status of [301, 401, 404, 405, 429, 500]) {
    sink.respondWith(() => ({ status }))
    t.match(await check(sink.url), [{ ok: false, message: new RegExp(String(status)) }])
  }
  t.match(await check('http://127.0.0.1:1/'), [{ ok: false, message: /refused/ }])
  const denying = { ...openSettings, egress: { ...openSettings.egress, deny: ['127.0.0.1'] } }
  t.match(await check(sink.url, denying), [{ ok: false, message: /egress policy/ }])
  sink.respondWith(() => ({ fault: 'never' }))
  t.match(await check(sink.url), [{ ok: false }])
})

t.test('a date in Retry-After is taken by the endpoint’s own clock, however wrong ours is', async (t) => {
  const headers = {
    date: 'Sat, 21 Nov 2026 12:00:00 GMT',
    'retry-after': 'Sat, 21 Nov 2026 12:00:20 GMT',
  }
  const answer = { status: 503, headers, excerpt: '' }
  for (const nowMs of [0, Date.UTC(2026, 10, 21, 12), Date.UTC(2036, 0, 1)]) {
    t.equal(responseError(answer, nowMs)?.retryAfterMs, 20_000)
  }
  const { date: _, ...withoutDate } = headers
  const nowMs = Date.UTC(2026, 10, 21, 12)
  t.equal(
    responseError({ ...answer, headers: withoutDate }, nowMs)?.retryAfterMs,
    20_000,
    'without a Date: by ours',
  )
})

t.test('secret headers, user information and two signing secrets; none of them comes back', async (t) => {
  const sink = await start(t)
  const keys = [Buffer.alloc(24, 1), Buffer.alloc(24, 2)]
  const config = {
    headers: { 'x-open': 'open' },
    secret_headers: { 'X-Token': 'top-secret' },
    signing_secret: keys.map((key) => `whsec_${key.toString('base64')}`).join(' '),
  }
  const url = `http://me:p%20w@127.0.0.1:${sink.port}/in?token=query-secret`
  await open(t, url, config).deliver(batch, never)
  const [{ headers, body, path } = sink.deliveries[0]!] = sink.deliveries
  t.match(headers, { 'x-open': 'open', 'x-token': 'top-secret' })
  t.equal(headers.authorization, `Basic ${Buffer.from('me:p w').toString('base64')}`)
  t.equal(path, '/in?token=query-secret')
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.`
  const expected = keys.map((key) => createHmac('sha256', key).update(signed).update(body).digest('base64'))
  t.equal(headers['webhook-signature'], expected.map((mac) => `v1,${mac}`).join(' '))

  const secrets = ['top-secret', 'query-secret', 'p w', config.signing_secret.split(' ')[1]]
  sink.respondWith(() => ({ status: 400, body: secrets.join(' and ') }))
  const { message } = await failure(open(t, url, config).deliver(batch, never))
  for (const secret of secrets) if (secret !== 'p w') t.notMatch(message, secret)
})
