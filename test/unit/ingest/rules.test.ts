import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { type Pipe, pipeDefaults } from '../../../src/contract/pipe.ts'
import { bodyEncoding, bodyFormat, checkOrigin } from '../../../src/ingest/admission.ts'
import { createClientIp, truncatedAddress } from '../../../src/ingest/client-ip.ts'
import { decodeBody as decodeWithin } from '../../../src/ingest/decode.ts'
import { parseNdjsonBody } from '../../../src/ingest/parse.ts'
import { planEnrichment } from '../../../src/ingest/prepare.ts'
import { requireFields } from '../../../src/ingest/required-fields.ts'
import type { DirectoryPipe } from '../../../src/metadata/directory-source.ts'

const pipe: Pipe = {
  ...pipeDefaults,
  pipe_id: '00000000-0000-4000-8000-000000000001',
  pipe_name: 'events',
  pipe_status: 'active',
  pipe_created_ts: '2026-01-01T00:00:00.000Z',
  pipe_updated_ts: '2026-01-01T00:00:00.000Z',
}

const decodeBody = (bytes: Buffer, encoding: 'gzip' | 'deflate' | 'br', maxBytes: number) =>
  decodeWithin(bytes, encoding, { maxBytes, reserve: () => {} })

function errorOf(run: () => unknown): ApiError {
  try {
    run()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

t.test(
  'enrichment: timestamp, IP and geo as the pipe says; a dimension without a value is not added',
  async (t) => {
    const at = Date.UTC(2026, 0, 2, 3, 4, 5, 6)
    const geo = { country: 'DE', city: 'Köln "am" Rhein', latitude: 50.9, accuracyRadiusKm: 10 }
    t.strictSame(planEnrichment(pipe).members(at, null, null), {
      keys: ['ingest_ts'],
      text: '"ingest_ts":"2026-01-02T03:04:05.006Z"',
    })
    t.strictSame(planEnrichment({ ...pipe, pipe_add_ingest_ts: false }).members(at, null, null), {
      keys: [],
      text: '',
    })
    const all: Pipe = {
      ...pipe,
      pipe_add_ingest_ip: true,
      pipe_ingest_ts_field: 'when "exactly"',
      pipe_ingest_geo_country_field: ' cc ',
      pipe_ingest_geo_region_field: 'region',
      pipe_ingest_geo_city_field: 'city',
      pipe_ingest_geo_latitude_field: 'lat',
      pipe_ingest_geo_accuracy_radius_field: 'km',
    }
    const { text, keys } = planEnrichment(all).members(at, '192.0.2.1', geo)
    t.strictSame(JSON.parse(`{${text}}`), {
      'when "exactly"': '2026-01-02T03:04:05.006Z',
      ingest_ip: '192.0.2.1',
      cc: 'DE',
      city: 'Köln "am" Rhein',
      lat: 50.9,
      km: 10,
    })
    t.notOk(keys.includes('region'))
  },
)

t.test('enrichment: geo does not need the IP to be added', async (t) => {
  const plan = planEnrichment({ ...pipe, pipe_add_ingest_ts: false, pipe_ingest_geo_country_field: 'cc' })
  t.ok(plan.needsClientIp)
  t.equal(plan.members(0, '192.0.2.1', { country: 'DE' }).text, '"cc":"DE"')
  t.equal(plan.members(0, '192.0.2.1', null).text, '')
})

t.test('truncated addresses: /24 of IPv4, /48 of IPv6, and mapped IPv6 is IPv4', async (t) => {
  const cases = {
    '203.0.113.255': '203.0.113.0',
    '10.0.0.0': '10.0.0.0',
    '::ffff:203.0.113.9': '203.0.113.0',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1::',
    '2001:db8::1': '2001:db8::',
    '::1': '::',
    'fe80::1': 'fe80::',
  }
  for (const [address, expected] of Object.entries(cases)) t.equal(truncatedAddress(address), expected)
})

t.test('enrichment: pipe_client_ip', async (t) => {
  const plan = (pipe_client_ip: Pipe['pipe_client_ip'], more: Partial<Pipe> = {}) =>
    planEnrichment({ ...pipe, pipe_add_ingest_ts: false, pipe_add_ingest_ip: true, pipe_client_ip, ...more })
  const text = (mode: Pipe['pipe_client_ip']) => plan(mode).members(0, '192.0.2.1', null).text
  t.equal(text('full'), '"ingest_ip":"192.0.2.1"')
  t.equal(text('truncated'), '"ingest_ip":"192.0.2.0"')
  t.equal(text('none'), '')
  t.notOk(plan('none').needsClientIp, 'the address is not even determined')
  const located = plan('none', { pipe_ingest_geo_country_field: 'cc' })
  t.ok(located.needsClientIp)
  t.same(located.members(0, '192.0.2.1', { country: 'DE' }), { keys: ['cc'], text: '"cc":"DE"' })
})

t.test('enrichment: two fields with the same key give one member', async (t) => {
  const plan = planEnrichment({ ...pipe, pipe_add_ingest_ip: true, pipe_ingest_ip_field: 'ingest_ts' })
  t.strictSame(plan.members(0, '192.0.2.1', null), { keys: ['ingest_ts'], text: '"ingest_ts":"192.0.2.1"' })
})

/** A record for each line. */
function bodyOf(...lines: string[]) {
  const limits = { maxRecords: 10, maxKeys: 10, maxValues: 100 }
  return parseNdjsonBody(Buffer.from(lines.join('\n')), limits)!
}

// JSON.parse of Node.js 24 takes the second record's key for the first one's.
t.test('required fields are seen however a record writes its keys', async () => {
  const records = bodyOf('{"before":1,"\\\\":2}', '{"before":1,"\\u005d":2}')
  requireFields(records, ['before'], [])
  requireFields(bodyOf('{"before":1,"\\u005d":2}'), ['before', ']'], [])
})

t.test('required fields: the first record that lacks any, with all it lacks', async (t) => {
  const required = ['id', 'toString', 'ingest_ts']
  requireFields(bodyOf('{"id":null,"toString":1}'), required, ['ingest_ts'])
  const error = errorOf(() => requireFields(bodyOf('{"id":1,"toString":1}', '{}'), required, ['ingest_ts']))
  t.equal(error.code, 'missing_required_fields')
  t.strictSame(error.details, { record_index: 1, fields: ['id', 'toString'] })
  const fromProto = errorOf(() => requireFields(bodyOf('{"__proto__":{"id":1}}'), ['id'], []))
  t.strictSame(fromProto.details, { record_index: 0, fields: ['id'] })
})

const peer4 = Uint8Array.from([10, 0, 0, 1])
const never = () => {
  throw new Error('X-Forwarded-For must not be looked at')
}

t.test('client IP: the peer, in one spelling, when no proxy is trusted', async (t) => {
  const { of } = createClientIp([])
  t.equal(of(peer4, never), '10.0.0.1')
  const mapped = Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4])
  t.equal(of(mapped, never), '1.2.3.4', 'an IPv4-mapped IPv6 peer is an IPv4 address')
  const six = Uint8Array.from([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
  t.equal(of(six, never), '2001:db8::1')
  t.equal(of(new Uint8Array(0), never), null)
})

t.test('client IP: behind a trusted proxy the right-most untrusted hop', async (t) => {
  const { of } = createClientIp(['10.0.0.0/8', '2001:db8:ffff::/48', '192.0.2.7'])
  const cases: [string, string][] = [
    ['', '10.0.0.1'],
    ['203.0.113.5', '203.0.113.5'],
    ['6.6.6.6, 203.0.113.5', '203.0.113.5'],
    ['6.6.6.6, 203.0.113.5, 10.9.9.9', '203.0.113.5'],
    ['6.6.6.6,203.0.113.5, 192.0.2.7 ,2001:db8:ffff::3', '203.0.113.5'],
    ['10.1.1.1, 10.2.2.2', '10.1.1.1'],
    ['203.0.113.5:4711', '203.0.113.5'],
    ['[2001:db8::5]:4711', '2001:db8::5'],
    ['2001:DB8:0:0::5', '2001:db8::5'],
    ['::ffff:203.0.113.5', '203.0.113.5'],
    ['203.0.113.5, garbage', '10.0.0.1'],
    ['203.0.113.5, garbage, 10.3.3.3', '10.3.3.3'],
    ['6.6.6.6, 0x7f.1', '10.0.0.1'],
    ['6.6.6.6, 2130706433', '10.0.0.1'],
    ['unknown', '10.0.0.1'],
  ]
  for (const [header, expected] of cases)
    t.equal(
      of(peer4, () => header),
      expected,
      header,
    )
})

t.test('client IP: an untrusted peer cannot name itself; trust changes on reload', async (t) => {
  const clientIp = createClientIp(['192.0.2.0/24'])
  t.equal(
    clientIp.of(peer4, () => '6.6.6.6'),
    '10.0.0.1',
  )
  clientIp.trust(['10.0.0.1', '::ffff:172.16.0.0/108'])
  t.equal(
    clientIp.of(peer4, () => '6.6.6.6'),
    '6.6.6.6',
  )
  t.equal(
    clientIp.of(peer4, () => '6.6.6.6, 172.16.0.9'),
    '6.6.6.6',
  )
  clientIp.trust([])
  t.equal(
    clientIp.of(peer4, () => '6.6.6.6'),
    '10.0.0.1',
  )
})

function withOrigins(change: Partial<Pipe>, ...origins: string[]): DirectoryPipe {
  const allowedOrigins = new Set(origins)
  const entry = { workspaceId: 'w', pipe: { ...pipe, ...change }, limits: null, source: null }
  return { ...entry, allowedOrigins, requiredFields: [] }
}

t.test('origins: rule 6, a pipe that requires a key', async (t) => {
  const listed = withOrigins({}, 'https://app.example:8443')
  t.strictSame(checkOrigin(listed, 'https://app.example:8443'), {
    allowOrigin: 'https://app.example:8443',
    error: null,
  })
  t.strictSame(checkOrigin(listed, 'HTTPS://App.Example:8443').error, null)
  t.strictSame(checkOrigin(listed, ''), { allowOrigin: null, error: null }, 'servers send no Origin')
  for (const origin of [
    'https://app.example',
    'http://app.example:8443',
    'https://evil.example',
    'null',
    'https://app.example:8443/',
  ]) {
    t.strictSame(checkOrigin(listed, origin), { allowOrigin: null, error: 'forbidden' }, origin)
  }
  const open = withOrigins({}) // no rows: nothing to match
  t.strictSame(checkOrigin(open, 'https://any.example'), { allowOrigin: 'https://any.example', error: null })
  for (const origin of ['null', 'chrome-extension://abcdef', 'https://any.example:443'])
    t.strictSame(checkOrigin(open, origin), { allowOrigin: origin, error: null }, origin)
  t.strictSame(checkOrigin(open, 'not an origin').allowOrigin, null, 'never sent back')
  const listed443 = withOrigins({}, 'https://app.example')
  t.strictSame(checkOrigin(listed443, 'https://app.example:443').error, null, 'the default port is no port')
  t.strictSame(checkOrigin(listed443, 'https://app.example:80').error, 'forbidden')
  const any = withOrigins({ pipe_allow_any_browser_origin: true }, 'https://app.example')
  t.strictSame(checkOrigin(any, 'http://other.example'), { allowOrigin: 'http://other.example', error: null })
  t.strictSame(checkOrigin(any, 'null').error, 'forbidden')
})

t.test('origins: rule 7, a pipe without a key', async (t) => {
  const keyless = { pipe_api_key_required: false }
  const listed = withOrigins(keyless, 'https://app.example')
  t.strictSame(checkOrigin(listed, ''), { allowOrigin: null, error: 'unauthorized' })
  t.strictSame(checkOrigin(listed, 'https://app.example'), {
    allowOrigin: 'https://app.example',
    error: null,
  })
  t.equal(checkOrigin(listed, 'https://app.example.evil').error, 'forbidden')
  t.equal(checkOrigin(withOrigins(keyless), 'https://app.example').error, 'configuration_error')
  t.equal(checkOrigin(withOrigins(keyless), '').error, 'unauthorized')
  const any = withOrigins({ ...keyless, pipe_allow_any_browser_origin: true })
  for (const origin of [
    'http://a',
    'https://a.b-c.d:1',
    'http://127.0.0.1:3000',
    'http://[::1]:3000',
    'http://localhost',
  ]) {
    t.strictSame(checkOrigin(any, origin), { allowOrigin: origin, error: null }, origin)
  }
  for (const origin of [
    'null',
    '*',
    'file://',
    'chrome-extension://abc',
    'https://',
    'https://a/',
    'https://a b',
    'https://u@a',
    'https://a:',
    'ftp://a',
  ]) {
    t.equal(checkOrigin(any, origin).error, 'forbidden', origin)
  }
})

t.test('content type: JSON and NDJSON in UTF-8, nothing else', async (t) => {
  t.equal(bodyFormat('application/json'), 'json')
  t.equal(bodyFormat('Application/JSON; charset="UTF-8"'), 'json')
  t.equal(bodyFormat('application/json;charset=utf8;x=y'), 'json')
  t.equal(bodyFormat('application/x-ndjson'), 'ndjson')
  t.equal(bodyFormat('text/plain;charset=UTF-8'), 'json')
  for (const type of [
    '',
    'text/html',
    'application/jsonx',
    'application/json; charset=latin1',
    'application/x-www-form-urlencoded',
    'application/ld+json',
  ]) {
    t.equal(errorOf(() => bodyFormat(type)).code, 'invalid_payload', type)
  }
})

t.test('content encoding: gzip, deflate (also bare) and br; others are unsupported_encoding', async (t) => {
  const body = Buffer.from(JSON.stringify({ a: 'x'.repeat(1000) }))
  const cases = [
    ['gzip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['deflate', deflateRawSync(body)],
    ['br', brotliCompressSync(body)],
  ] as const
  for (const [encoding, sent] of cases) {
    t.equal(bodyEncoding(encoding.toUpperCase()), encoding)
    t.same(await decodeBody(sent, encoding, body.length), body, encoding)
    for (const cut of [0, 1, 5, sent.length - 5]) {
      await t.rejects(
        decodeBody(sent.subarray(0, cut), encoding, 10_000),
        { code: 'invalid_payload' },
        `cut at ${cut}`,
      )
    }
    await t.rejects(decodeBody(sent, encoding, body.length - 1), { code: 'payload_too_large' })
    await t.rejects(decodeBody(Buffer.from('{"a":1}'), encoding, 1000), { code: 'invalid_payload' })
  }
  t.equal(bodyEncoding(''), 'identity')
  t.equal(bodyEncoding('identity'), 'identity')
  for (const encoding of ['zstd', 'gzip, gzip', 'compress']) {
    t.equal(errorOf(() => bodyEncoding(encoding)).code, 'unsupported_encoding', encoding)
  }
})

t.test('a gzip bomb is cut off at the limit', async (t) => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
  t.ok(bomb.length < 100_000)
  const before = process.memoryUsage().external
  await t.rejects(decodeBody(bomb, 'gzip', 1024 * 1024), { code: 'payload_too_large' })
  t.ok(process.memoryUsage().external - before < 16 * 1024 * 1024)
})
