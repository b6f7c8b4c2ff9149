import t from 'tap'
import type { Answer } from '../support/api-client.ts'
import { sendRaw } from '../support/raw-http.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())

const app = 'https://app.example:8443'
let made = 0
async function makePipe(change: Record<string, unknown>, ...origins: string[]): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: `cors${made++}`, ...change })
  for (const origin_domain of origins) {
    await daemon.api('POST', `/v1/pipes/${pipeId}/allowed-origins`, { origin_domain })
  }
  return pipeId
}
function post(pipe: string, origin: string | null, key: string | null | undefined = undefined, body = '{}') {
  const headers: Record<string, string> = origin === null ? {} : { origin }
  return daemon.api<{ error?: string }>('POST', `/v1/ingest/${pipe}`, body, { headers, key })
}
function preflight(pipe: string, origin: string | null) {
  const headers: Record<string, string> = {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type,authorization',
  }
  if (origin !== null) headers.origin = origin
  return daemon.api('OPTIONS', `/v1/ingest/${pipe}`, undefined, { headers, key: null })
}
const allowOrigin = (answer: Answer<unknown>) => answer.headers['access-control-allow-origin']

t.test('rule 6: with allowed origins, a request that sends Origin must match one', async (t) => {
  const pipe = await makePipe({}, app, 'http://second.example')
  const good = await post(pipe, app)
  t.same([good.status, allowOrigin(good)], [202, app])
  t.match(good.headers, {
    vary: 'Origin',
    'access-control-expose-headers': /Retry-After.*X-RateLimit-Remaining/,
    'access-control-max-age': '7200',
  })
  t.equal(good.headers['access-control-allow-credentials'], undefined)
  t.equal((await post(pipe, 'http://second.example')).status, 202)
  for (const origin of ['https://app.example', `${app}.evil`, 'https://evil.example', 'null']) {
    const bad = await post(pipe, origin)
    t.same(
      [bad.status, bad.body.error, allowOrigin(bad), bad.headers.vary],
      [403, 'forbidden', undefined, 'Origin'],
      origin,
    )
  }
  const server = await post(pipe, null)
  t.same([server.status, allowOrigin(server)], [202, undefined], 'servers send no Origin')
  const noKey = await post(pipe, 'https://evil.example', null)
  t.same([noKey.status, noKey.body.error], [401, 'unauthorized'], 'the key is judged before the Origin')
})

t.test(
  'rule 6: without allowed origins any Origin passes and is echoed; any-origin takes standard ones',
  async (t) => {
    const open = await makePipe({})
    const answer = await post(open, 'https://any.example')
    t.same([answer.status, allowOrigin(answer)], [202, 'https://any.example'])
    const any = await makePipe({ pipe_allow_any_browser_origin: true }, app)
    const other = await post(any, 'http://other.example:3000')
    t.same(
      [other.status, allowOrigin(other)],
      [202, 'http://other.example:3000'],
      'the rows are not consulted',
    )
    t.equal((await post(any, 'null')).status, 403)
    t.equal((await post(any, 'http://other.example', null)).status, 401, 'only once the key is valid')
  },
)

t.test('rule 7: without a key the Origin is required and must match', async (t) => {
  const pipe = await makePipe({ pipe_api_key_required: false }, app)
  const good = await post(pipe, app, null)
  t.same([good.status, allowOrigin(good)], [202, app])
  const missing = await post(pipe, null, null)
  t.same([missing.status, missing.body.error], [401, 'unauthorized'])
  t.equal((await post(pipe, null)).status, 401, 'a key does not stand in for it')
  t.equal((await post(pipe, app, 'not a key at all')).status, 202, 'no key is checked')
  const bad = await post(pipe, 'https://evil.example', null)
  t.same([bad.status, bad.body.error, allowOrigin(bad)], [403, 'forbidden', undefined])
  const any = await makePipe({ pipe_api_key_required: false, pipe_allow_any_browser_origin: true })
  t.same(
    [(await post(any, 'https://a.example', null)).status, (await post(any, 'null', null)).status],
    [202, 403],
  )
})

t.test(
  'rule 7: no allowed origins and any-origin off is 500 configuration_error, until an origin is added',
  async (t) => {
    const pipe = await makePipe({ pipe_api_key_required: false })
    const answer = await post(pipe, app, null)
    t.same([answer.status, answer.body.error, allowOrigin(answer)], [500, 'configuration_error', undefined])
    t.equal((await preflight(pipe, app)).status, 403)
    const added = await daemon.api<{ pipe_allowed_origin_id: string }>(
      'POST',
      `/v1/pipes/${pipe}/allowed-origins`,
      {
        origin_domain: app,
      },
    )
    t.equal((await post(pipe, app, null)).status, 202)
    await daemon.api('DELETE', `/v1/pipes/${pipe}/allowed-origins/${added.body.pipe_allowed_origin_id}`)
    t.equal((await post(pipe, app, null)).status, 500)
  },
)

t.test('errors carry the CORS headers too, where the origin is allowed', async (t) => {
  const pipe = await makePipe({}, app)
  for (const [body, key, status] of [
    ['[]', undefined, 400],
    ['{', undefined, 400],
    ['{}', null, 401],
  ] as const) {
    const answer = await post(pipe, app, key, body)
    t.same([answer.status, allowOrigin(answer), answer.headers.vary], [status, app, 'Origin'])
  }
  const hint = await daemon.api('GET', `/v1/ingest/${pipe}`, undefined, { headers: { origin: app } })
  t.same([hint.status, allowOrigin(hint)], [200, app])
})

t.test('OPTIONS: 204 without a body, Authorization only when the pipe requires a key', async (t) => {
  const keyed = await preflight(await makePipe({}, app), app)
  t.same([keyed.status, keyed.text, allowOrigin(keyed)], [204, '', app])
  t.match(keyed.headers, {
    'access-control-allow-methods': /POST/,
    'access-control-max-age': '7200',
    vary: 'Origin',
  })
  t.equal(keyed.headers['content-length'], undefined)
  const allowed = (answer: Answer<unknown>) =>
    String(answer.headers['access-control-allow-headers']).split(', ')
  t.ok(allowed(keyed).includes('Content-Type') && allowed(keyed).includes('Authorization'))
  const keyless = await preflight(await makePipe({ pipe_api_key_required: false }, app), app)
  t.equal(keyless.status, 204)
  t.ok(allowed(keyless).includes('Content-Type') && !allowed(keyless).includes('Authorization'))
})

t.test('OPTIONS: absent origin 400, not allowed 403, both with an empty body', async (t) => {
  const pipe = await makePipe({}, app)
  for (const [origin, status] of [
    [null, 400],
    ['https://evil.example', 403],
    ['null', 403],
  ] as const) {
    const answer = await preflight(pipe, origin)
    t.same([answer.status, answer.text, allowOrigin(answer)], [status, '', undefined], String(origin))
  }
  t.equal((await preflight('nope', app)).status, 400)
  t.equal((await preflight('00000000-0000-4000-8000-000000000000', app)).status, 404)
})

t.test('a keyed pipe without origin rows echoes every Origin, opaque ones included', async (t) => {
  const pipe = await makePipe({})
  for (const origin of ['null', 'chrome-extension://abcdefghijklmnop', 'https://any.example:443']) {
    const answer = await post(pipe, origin)
    t.same([answer.status, allowOrigin(answer)], [202, origin])
    const checked = await preflight(pipe, origin)
    t.same([checked.status, allowOrigin(checked)], [204, origin])
  }
})

t.test('the default port of an allowed origin is dropped: https://x:443 is https://x', async (t) => {
  const pipe = await makePipe({}, 'https://Default.example:443', 'http://plain.example:80')
  for (const origin of ['https://default.example', 'http://plain.example']) {
    const answer = await post(pipe, origin)
    t.same([answer.status, allowOrigin(answer)], [202, origin])
  }
  t.equal((await post(pipe, 'https://default.example:80')).status, 403)
  const again = await daemon.api('POST', `/v1/pipes/${pipe}/allowed-origins`, {
    origin_domain: 'https://default.example',
  })
  t.same([again.status, again.body.error], [409, 'duplicate_origin'])
})

t.test(
  'every response of a known pipe carries its CORS headers: paused, wrong method, bad framing',
  async (t) => {
    const pipe = await makePipe({}, app)
    const put = await daemon.api('PUT', `/v1/ingest/${pipe}`, '{}', { headers: { origin: app } })
    t.same([put.status, allowOrigin(put)], [405, app])
    const raw = await sendRaw(
      daemon.dataUrl,
      `POST /v1/ingest/${pipe} HTTP/1.1\r\nHost: x\r\nOrigin: ${app}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    )
    t.same([raw.status, raw.headers['access-control-allow-origin'], raw.closed], [400, app, true])
    await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_status: 'paused' })
    for (const answer of [
      await post(pipe, app),
      await preflight(pipe, app),
      await daemon.api('GET', `/v1/ingest/${pipe}`, undefined, { headers: { origin: app } }),
    ])
      t.same([answer.status, allowOrigin(answer), answer.headers.vary], [404, app, 'Origin'])
    t.equal(allowOrigin(await post(pipe, 'https://evil.example')), undefined)
  },
)
