/**
 * The rights of a page of another origin: to send JSON as text/plain, which needs no preflight, and to load the
 * script for it.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { request } from 'undici'
import { startDaemon } from '../support/daemon.ts'

const daemon = await startDaemon({ args: ['--data-listen', '127.0.0.1:0'] })
t.teardown(() => daemon.close())

const site = 'https://shop.example'
const beacon = { 'content-type': 'text/plain;charset=UTF-8', origin: site }
let made = 0

/** A pipe without a key for pages of `site`, and what it stores. */
async function makePipe(change: Record<string, unknown> = {}) {
  const pipeId = await daemon.createPipe({
    ...{ pipe_name: `page${made++}`, pipe_add_ingest_ts: false, pipe_api_key_required: false },
    ...change,
  })
  await daemon.api('POST', `/v1/pipes/${pipeId}/allowed-origins`, { origin_domain: site })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const stored = async () => {
    const { status, body } = await daemon.api<{ records: unknown[] }>('GET', `/v1/pull/${lane}?wait_ms=0`)
    return status === 204 ? null : body.records
  }
  return { pipeId, stored }
}

interface Body {
  error?: string
  message: string
  msg_id: string
}
const post = (
  pipeId: string,
  body: string,
  headers: Record<string, string> = beacon,
  { query = '', key = null as string | null } = {},
) => daemon.api<Body>('POST', `/v1/ingest/${pipeId}${query}`, body, { headers, key })

t.test('text/plain holds JSON, one object or an array of them, and nothing else', async (t) => {
  const { pipeId, stored } = await makePipe()
  const answer = await post(pipeId, '[{"a":1.10},{"b":"é"}]')
  t.same([answer.status, answer.headers['access-control-allow-origin']], [202, site], answer.text)
  t.equal((await post(pipeId, '{"c":1}', { ...beacon, 'content-type': 'text/plain' })).status, 202)
  t.same(await stored(), [{ a: 1.1 }, { b: 'é' }])
  t.same(await stored(), [{ c: 1 }])
  for (const [body, type] of [
    ['{"a":1}\n{"b":2}', 'text/plain'],
    ['hello', 'text/plain'],
    ['"hello"', 'text/plain'],
    ['{"a":1}', 'text/plain;charset=iso-8859-1'],
    ['{"a":1}', 'text/plainly'],
    ['{"a":1}', 'text/html'],
    ['{"a":1}', 'application/x-www-form-urlencoded'],
    ['{"a":1}', 'multipart/form-data; boundary=x'],
  ] as const) {
    const bad = await post(pipeId, body, { ...beacon, 'content-type': type })
    t.same([bad.status, bad.body.error], [400, 'invalid_payload'], `${type} ${body}`)
  }
  t.equal(await stored(), null)
})

t.test(
  'without a preflight the Origin of the request itself decides, and a key stays a header',
  async (t) => {
    const { pipeId, stored } = await makePipe()
    for (const [origin, status] of [
      ['https://evil.example', 403],
      ['null', 403],
      ['https://shop.example.evil.example', 403],
      ['http://shop.example', 403],
    ] as const) {
      const bad = await post(pipeId, '{}', { ...beacon, origin })
      t.same([bad.status, bad.headers['access-control-allow-origin']], [status, undefined], origin)
    }
    t.equal((await post(pipeId, '{}', { 'content-type': 'text/plain' })).status, 401, 'no Origin')
    t.equal(await stored(), null)

    const keyed = await makePipe({ pipe_api_key_required: true })
    for (const query of [
      '',
      `?key=${daemon.apiKey}`,
      `?api_key=${daemon.apiKey}`,
      `?authorization=${daemon.apiKey}`,
    ])
      t.equal((await post(keyed.pipeId, '{}', beacon, { query })).status, 401, 'a key in the URL is none')
    t.equal((await post(keyed.pipeId, '{}', beacon, { key: daemon.apiKey })).status, 202)
  },
)

t.test('?idempotency_key= is the header of those that can have none', async (t) => {
  const { pipeId, stored } = await makePipe()
  const query = '?idempotency_key=a%20b-1'
  const first = await post(pipeId, '{"n":1}', beacon, { query })
  const again = await post(pipeId, '{"n":1}', beacon, { query })
  const byHeader = await post(pipeId, '{"n":1}', { ...beacon, 'idempotency-key': 'a b-1' })
  t.same([first.status, again.status, byHeader.status], [202, 202, 202])
  t.same([again.body.msg_id, byHeader.body.msg_id], [first.body.msg_id, first.body.msg_id])
  const other = await post(pipeId, '{"n":2}', beacon, { query })
  t.same([other.status, other.body.error], [422, 'idempotency_key_reused'])
  t.same(await stored(), [{ n: 1 }])
  t.equal(
    (await post(pipeId, '{"n":3}', beacon, { query: '?other=1' })).status,
    202,
    'other parameters are nothing',
  )
  t.same(await stored(), [{ n: 3 }])
  for (const [what, bad, headers] of [
    ['empty', '?idempotency_key=', beacon],
    ['too long', `?idempotency_key=${'x'.repeat(256)}`, beacon],
    ['not ASCII', '?idempotency_key=%C3%A9', beacon],
    ['twice', '?idempotency_key=a&idempotency_key=a', beacon],
    ['as a header too', '?idempotency_key=a', { ...beacon, 'idempotency-key': 'a' }],
  ] as const) {
    const answer = await post(pipeId, '{}', headers, { query: bad })
    t.same([answer.status, answer.body.error], [400, 'invalid_payload'], what)
    t.match(answer.body.message, /Idempotency-Key must be 1 to 255 ASCII characters and sent once/, what)
  }
  t.equal(await stored(), null)
})

for (const name of ['pipectl.js', 'pipectl.mjs']) {
  t.test(`GET /v1/${name}: on both listeners, for pages of any origin`, async (t) => {
    const built = readFileSync(new URL(`../../dist/browser/${name}`, import.meta.url))
    for (const base of [daemon.url, daemon.dataUrl]) {
      const get = (headers: Record<string, string> = {}, method: 'GET' | 'HEAD' | 'POST' = 'GET') =>
        request(`${base}/v1/${name}`, { method, headers: { origin: site, ...headers } })
      const answer = await get()
      t.equal(answer.statusCode, 200)
      t.match(answer.headers, {
        'content-type': 'text/javascript; charset=utf-8',
        'cache-control': 'public, max-age=3600',
        'access-control-allow-origin': '*',
        'cross-origin-resource-policy': 'cross-origin',
        'x-content-type-options': 'nosniff',
        vary: 'Accept-Encoding',
      })
      t.equal(answer.headers['access-control-allow-credentials'], undefined)
      t.ok(built.equals(Buffer.from(await answer.body.arrayBuffer())), 'as it was built')

      const tag = String(answer.headers.etag)
      const known = await get({ 'if-none-match': `"other", W/${tag}` })
      t.same([known.statusCode, await known.body.text(), known.headers.etag], [304, '', tag])
      t.equal(known.headers['content-length'], undefined)
      t.equal((await get({ 'if-none-match': '"other"' })).statusCode, 200)

      const tags = new Set([tag])
      for (const [encoding, decode] of [
        ['gzip', gunzipSync],
        ['br', brotliDecompressSync],
      ] as const) {
        const small = await get({ 'accept-encoding': encoding })
        t.equal(small.headers['content-encoding'], encoding)
        t.ok(built.equals(decode(Buffer.from(await small.body.arrayBuffer()))), encoding)
        tags.add(String(small.headers.etag))
      }
      t.equal(tags.size, 3, 'other bytes, another tag')

      const head = await get({}, 'HEAD')
      t.same([head.statusCode, head.headers['content-length']], [200, String(built.length)])
      const wrong = await get({}, 'POST')
      t.same([wrong.statusCode, wrong.headers.allow], [405, 'GET, HEAD'])
      for (const one of [head, wrong]) await one.body.dump()
    }
  })
}

t.test('it is under 4 KB, and the guide has its hash', async (t) => {
  const script = readFileSync(new URL('../../dist/browser/pipectl.js', import.meta.url))
  for (const name of ['pipectl.js', 'pipectl.mjs']) {
    const { length } = readFileSync(new URL(`../../dist/browser/${name}.gz`, import.meta.url))
    t.ok(length < 4_000, `${name}: ${length} bytes with gzip`)
  }
  const guide = readFileSync(new URL('../../docs/browser.md', import.meta.url), 'utf8')
  t.match(guide, `sha384-${createHash('sha384').update(script).digest('base64')}`)
})
