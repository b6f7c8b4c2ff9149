import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import type { Answer } from '../support/api-client.ts'
import { createWorkspace, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { cityRecord, writeMmdb } from '../support/mmdb.ts'
import { until } from '../support/until.ts'

const geoFile = path.join(t.testdir(), 'city.mmdb')
const berlin = cityRecord({
  country: 'DE',
  region: 'Berlin',
  city: 'Köln',
  postal: '10115',
  latitude: 52.5,
  longitude: 13.25,
  accuracyRadiusKm: 20,
})
writeFileSync(geoFile, writeMmdb({ ipVersion: 4, networks: { '192.0.2.0/24': berlin } }))

const daemon = await startDaemon({
  env: { PIPECTL_GEOIP_DATABASE: geoFile, PIPECTL_TRUSTED_PROXIES: '127.0.0.0/8' },
})
t.teardown(() => daemon.close())

interface IngestBody {
  accepted: boolean
  pipe_id: string
  pipe_name: string
  records_count: number
  msg_id: string
  message: string
  error?: string
  [detail: string]: unknown
}
const post = (
  pipe: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
  key?: string | null,
) => daemon.api<IngestBody>('POST', `/v1/ingest/${pipe}`, body, { headers, key })

let made = 0
/** A pipe without enrichment unless asked for, and a pull lane that shows what is stored. */
async function makePipe(change: Record<string, unknown> = {}) {
  const name = `p${made++}`
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false, ...change })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  return { pipeId, name, stored: () => pullText(daemon, lane) }
}

/** The `records` text of the lane's next message, exactly as sent over the wire. */
async function pullText(from: TestDaemon, lane: string): Promise<string> {
  const answer = await from.api('GET', `/v1/pull/${lane}?wait_ms=5000`)
  t.equal(answer.status, 200)
  return answer.text.slice(answer.text.indexOf('"records":') + '"records":'.length, -1)
}

function hasError(answer: Answer<IngestBody>, status: number, code: string, what: string) {
  t.same([answer.status, answer.body?.error], [status, code], what)
  t.type(answer.body?.message, 'string')
  t.match(answer.headers, {
    vary: 'Origin',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  })
}

t.test('POST ingest: 202 has exactly the fields of the spec, and the record is stored', async (t) => {
  const { pipeId, name, stored } = await makePipe()
  const answer = await post(pipeId.toUpperCase(), '{"a":1}')
  t.equal(answer.status, 202)
  t.match(answer.headers, { 'content-type': /^application\/json/, vary: 'Origin' })
  const { msg_id, message, ...rest } = answer.body
  t.strictSame(rest, { accepted: true, pipe_id: pipeId, pipe_name: name, records_count: 1 })
  t.match(msg_id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.type(message, 'string')
  t.equal(await stored(), '[{"a":1}]')
  t.equal((await post(pipeId, '[{"a":1},{"a":2}]')).body.records_count, 2)
  t.equal(await stored(), '[{"a":1},{"a":2}]')
})

t.test('record text is stored as sent: numbers, duplicate keys, key order, __proto__', async (t) => {
  const { pipeId, stored } = await makePipe()
  const records = [
    '{"big":12345678901234567890,"d":1.10,"huge":1e400,"one":1.0}',
    '{"b":1,"a":2,"2":3,"1":4,"b":5}',
    '{"__proto__":{"admin":true},"s":"\\ud800 é 😀"}',
    '{"records":[{"a":1}]}',
  ]
  await post(pipeId, `[${records.join(',\n')}]`)
  t.equal(await stored(), `[${records.join(',')}]`)
})

t.test('enrichment: timestamp, IP and the seven geo fields', async (t) => {
  const { pipeId, stored } = await makePipe({
    pipe_add_ingest_ts: true,
    pipe_add_ingest_ip: true,
    pipe_ingest_geo_country_field: 'ingest_country_code',
    pipe_ingest_geo_region_field: 'ingest_region',
    pipe_ingest_geo_city_field: 'ingest_city',
    pipe_ingest_geo_postal_field: 'ingest_postal_code',
    pipe_ingest_geo_latitude_field: 'ingest_latitude',
    pipe_ingest_geo_longitude_field: 'ingest_longitude',
    pipe_ingest_geo_accuracy_radius_field: 'ingest_geo_accuracy_radius_km',
  })
  const before = Date.now()
  await post(pipeId, '{"ingest_city":"mine","n":1.10}', { 'x-forwarded-for': '6.6.6.6, 192.0.2.9' })
  const text = await stored()
  t.match(text, /^\[\{"n":1\.10,"ingest_ts":/, 'the server’s city stands instead of the client’s')
  const [record] = JSON.parse(text)
  const { ingest_ts, ...rest } = record
  t.match(ingest_ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.ok(Date.parse(ingest_ts) >= before && Date.parse(ingest_ts) <= Date.now())
  t.strictSame(rest, {
    n: 1.1,
    ingest_ip: '192.0.2.9',
    ingest_country_code: 'DE',
    ingest_region: 'Berlin',
    ingest_city: 'Köln',
    ingest_postal_code: '10115',
    ingest_latitude: 52.5,
    ingest_longitude: 13.25,
    ingest_geo_accuracy_radius_km: 20,
  })
  await post(pipeId, '[{},{"ingest_city":"mine"}]')
  const [first, second] = JSON.parse(await stored())
  t.same(Object.keys(first), ['ingest_ts', 'ingest_ip'], 'nothing is known about loopback')
  t.equal(second.ingest_city, 'mine', 'a dimension without a value leaves the client’s key')
})

t.test('enrichment: a replaced geo database is used without a restart', async (_t) => {
  const { pipeId, stored } = await makePipe({ pipe_ingest_geo_country_field: 'cc' })
  writeFileSync(
    geoFile,
    writeMmdb({ ipVersion: 6, networks: { '192.0.2.0/24': cityRecord({ country: 'JP' }) } }),
  )
  await until('the new database answers', async () => {
    await post(pipeId, '{}', { 'x-forwarded-for': '192.0.2.9' })
    return (await stored()) === '[{"cc":"JP"}]'
  })
})

t.test('required fields are checked after enrichment, and nothing of the request is buffered', async (t) => {
  const { pipeId, stored } = await makePipe({ pipe_add_ingest_ts: true })
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: {
      host: '127.0.0.1',
      port: 1,
      database: 'd',
      username: 'u',
      password: 'p',
      table: 't',
    },
    columns: [
      { column_name: 'id', column_type: 'string', source_field: 'id', semantic_role: 'dedupe_id' },
      { column_name: 'n', column_type: 'number', source_field: 'n', nullable: false },
      { column_name: 'at', column_type: 'string', source_field: 'ingest_ts', nullable: false },
      { column_name: 'free', column_type: 'string', source_field: 'free' },
    ],
  })
  const answer = await post(pipeId, '[{"id":1,"n":null},{"id":2}]')
  hasError(answer, 400, 'missing_required_fields', 'record 1 lacks n')
  t.equal(answer.body.record_index, 1)
  t.strictSame(answer.body.fields, ['n'])
  t.equal((await post(pipeId, '{"id":1,"n":2}')).status, 202)
  t.match(await stored(), /^\[\{"id":1,"n":2,"ingest_ts":"[^"]+"\}\]$/, 'the refused request left nothing')
})

t.test('order of checks: UUID, pipe, key, size, encoding, JSON', async (_t) => {
  const { pipeId } = await makePipe()
  const unknown = '00000000-0000-4000-8000-000000000000'
  hasError(await post('nope', 'x', {}, null), 400, 'invalid_pipe_id', 'no UUID')
  hasError(await post(`${pipeId}0`, 'x', {}, null), 400, 'invalid_pipe_id', 'too long')
  hasError(await post(unknown, 'x', {}, null), 404, 'pipe_not_found', 'unknown pipe')
  const huge = Buffer.alloc(10 * 1024 * 1024 + 1, 'x')
  hasError(await post(pipeId, huge, { 'content-encoding': 'zstd' }, null), 401, 'unauthorized', 'no key')
  hasError(await post(pipeId, huge, { 'content-encoding': 'zstd' }), 413, 'payload_too_large', 'size')
  hasError(await post(pipeId, 'x', { 'content-encoding': 'zstd' }), 415, 'unsupported_encoding', 'encoding')
  hasError(await post(pipeId, 'x', { 'content-type': 'text/plain' }), 400, 'invalid_payload', 'content type')
  hasError(await post(pipeId, 'x'), 400, 'invalid_payload', 'JSON')
  hasError(await post(pipeId, '[]'), 400, 'empty_payload', 'an empty array')
  hasError(await post(pipeId, ''), 400, 'empty_payload', 'no body')
  hasError(await post(pipeId, '[{},1]'), 400, 'invalid_payload', 'a primitive among the records')
})

t.test('a paused pipe is 404 pipe_not_found until it is active again', async (t) => {
  const { pipeId } = await makePipe()
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_status: 'paused' })
  hasError(await post(pipeId, '{}'), 404, 'pipe_not_found', 'paused')
  t.equal((await daemon.api('GET', `/v1/ingest/${pipeId}`)).status, 404)
  t.equal(
    (await daemon.api('OPTIONS', `/v1/ingest/${pipeId}`, undefined, { headers: { origin: 'https://a.b' } }))
      .status,
    404,
  )
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_status: 'active' })
  t.equal((await post(pipeId, '{}')).status, 202)
})

t.test('keys: missing, malformed, unknown, another workspace’s and revoked are the same 401', async (t) => {
  const { pipeId } = await makePipe()
  const other = await createWorkspace(daemon.dataDir, 'other')
  const created = await daemon.api<{ api_key: string; api_key_id: string }>('POST', '/v1/api-keys', {
    api_key_name: 'short-lived',
  })
  const { api_key, api_key_id } = created.body
  t.equal((await post(pipeId, '{}', {}, api_key)).status, 202)
  await daemon.api('DELETE', `/v1/api-keys/${api_key_id}`)
  const bad = [
    null,
    api_key,
    other.api_key,
    'ppl1_',
    `${daemon.apiKey}x`,
    daemon.apiKey.slice(0, -1),
    'ppl1_00000000000000000000000000000000000000',
  ]
  const bodies = new Set<string>()
  for (const key of bad) {
    const answer = await post(pipeId, '{}', {}, key)
    hasError(answer, 401, 'unauthorized', String(key))
    t.equal(answer.headers['www-authenticate'], 'Bearer')
    bodies.add(answer.text)
  }
  t.equal(bodies.size, 1)
  hasError(
    await post(pipeId, '{}', { authorization: `Basic ${daemon.apiKey}` }),
    401,
    'unauthorized',
    'another scheme',
  )
  t.equal((await post(pipeId, '{}', { authorization: `bearer  ${daemon.apiKey}` })).status, 202)
})

t.test('bodies: gzip, deflate, br, NDJSON; UTF-8 only', async (t) => {
  const { pipeId, stored } = await makePipe()
  const body = Buffer.from('[{"a":1.10},{"b":"é"}]')
  const ways = [
    ['gzip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['br', brotliCompressSync(body)],
    ['identity', body],
  ] as const
  for (const [encoding, sent] of ways) {
    t.equal((await post(pipeId, sent, { 'content-encoding': encoding })).body.records_count, 2, encoding)
    t.equal(await stored(), body.toString())
  }
  const lines = await post(pipeId, '{"a":1.10}\r\n\n{"b":2}\n', { 'content-type': 'application/x-ndjson' })
  t.equal(lines.body.records_count, 2)
  t.equal(await stored(), '[{"a":1.10},{"b":2}]')
  const badLine = await post(pipeId, '{"a":1}\n{', { 'content-type': 'application/x-ndjson' })
  hasError(badLine, 400, 'invalid_payload', 'line 2')
  t.match(badLine.body.message, /Line 2/)
  t.equal((await post(pipeId, '{}', { 'content-type': 'application/json; charset=utf-8' })).status, 202)
  hasError(
    await post(pipeId, '{}', { 'content-type': 'application/json; charset=latin1' }),
    400,
    'invalid_payload',
    'charset',
  )
  hasError(
    await post(pipeId, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
    400,
    'invalid_payload',
    'UTF-8',
  )
})

t.test('bodies: truncated and bombs are rejected, deep nesting too', async (t) => {
  const { pipeId } = await makePipe()
  const cut = gzipSync(Buffer.from('{"a":1}')).subarray(0, 20)
  hasError(await post(pipeId, cut, { 'content-encoding': 'gzip' }), 400, 'invalid_payload', 'truncated gzip')
  hasError(await post(pipeId, '{"a":1}', { 'content-encoding': 'gzip' }), 400, 'invalid_payload', 'not gzip')
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024, ' '))
  hasError(await post(pipeId, bomb, { 'content-encoding': 'gzip' }), 413, 'payload_too_large', 'gzip bomb')
  const deep = `{"a":${'['.repeat(100)}${']'.repeat(100)}}`
  hasError(await post(pipeId, deep), 400, 'invalid_payload', '101 levels')
  hasError(await post(pipeId, '['.repeat(5_000_000)), 400, 'invalid_payload', 'five million levels')
  t.equal((await post(pipeId, `{"a":${'['.repeat(99)}${']'.repeat(99)}}`)).status, 202, '100 levels')
})

t.test('Idempotency-Key: the first 202 again, nothing more buffered', async (t) => {
  const { pipeId, stored } = await makePipe()
  const headers = { 'idempotency-key': 'order 4711' }
  const first = await post(pipeId, '[{"a":1},{"a":2}]', headers)
  const again = await post(pipeId, '[{"a":1},{"a":2}]', headers)
  t.equal(again.status, 202)
  t.strictSame(again.body, first.body)
  hasError(await post(pipeId, '{"a":3}', headers), 422, 'idempotency_key_reused', 'another body')
  const elsewhere = await makePipe()
  t.not((await post(elsewhere.pipeId, '{}', headers)).body.msg_id, first.body.msg_id, 'keys are per pipe')
  await post(pipeId, '{"last":true}')
  t.equal(await stored(), '[{"a":1},{"a":2}]')
  t.equal(await stored(), '[{"last":true}]')
  for (const key of ['', 'x'.repeat(256), 'é']) {
    hasError(
      await post(pipeId, '{}', { 'idempotency-key': key }),
      400,
      'invalid_payload',
      `key ${key.length}`,
    )
  }
  t.equal((await post(pipeId, '{}', { 'idempotency-key': 'x'.repeat(255) })).status, 202)
})

t.test('GET hint: 200, and says what POST wants; HEAD the same without a body', async (t) => {
  const { pipeId } = await makePipe()
  const hint = await daemon.api<IngestBody>('GET', `/v1/ingest/${pipeId}`, undefined, { key: null })
  t.equal(hint.status, 200)
  const { message, ...rest } = hint.body
  t.type(message, 'string')
  t.strictSame(rest, { method: 'POST', content_type: 'application/json', pipe_id: pipeId })
  const head = await daemon.api('HEAD', `/v1/ingest/${pipeId}`, undefined, { key: null })
  t.same([head.status, head.text, head.headers['content-length']], [200, '', String(hint.text.length)])
  hasError(await daemon.api('GET', '/v1/ingest/nope', undefined), 400, 'invalid_pipe_id', 'no UUID')
  hasError(
    await daemon.api('GET', '/v1/ingest/00000000-0000-4000-8000-000000000000'),
    404,
    'pipe_not_found',
    'unknown',
  )
  const put = await daemon.api('PUT', `/v1/ingest/${pipeId}`, '{}')
  t.same(
    [put.status, put.body.error, put.headers.allow],
    [405, 'method_not_allowed', 'POST, GET, HEAD, OPTIONS'],
  )
})
