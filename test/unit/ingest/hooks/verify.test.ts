import { createHmac } from 'node:crypto'
import t from 'tap'
import type { OpenedSource } from '../../../../src/contract/source-words.ts'
import { bodyOf } from '../../../../src/ingest/hooks/body.ts'
import type { HookRequest, Verdict } from '../../../../src/ingest/hooks/request.ts'
import { verify } from '../../../../src/ingest/hooks/verify.ts'
import { type HookExample, hmacSource, hookExamples, hookRequest } from '../../../support/hooks.ts'

const examples = Object.entries<HookExample>(hookExamples)
const isStored = (verdict: Verdict) => verdict.ok && !('answer' in verdict)

/** Every text or body that differs in one bit. */
function* bitFlips(bytes: Uint8Array): Generator<Buffer> {
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    yield changed
  }
}

t.test('the example of each provider is accepted, with the id of the delivery', async (t) => {
  for (const [name, example] of examples) {
    const expected = example.deliveryId === undefined ? {} : { deliveryId: example.deliveryId }
    t.match(verify(example.source, hookRequest(example)), { ok: true, ...expected }, name)
  }
})

t.test('no body that differs in one bit is accepted', async (t) => {
  for (const [name, example] of examples) {
    if (name === 'secret_url' || name === 'basic') continue
    const type = example.headers['content-type'] ?? ''
    const stored = (body: Uint8Array) => JSON.stringify(bodyOf(example.source, type, body))
    const accepted = [...bitFlips(Buffer.from(example.body))].filter((body) =>
      isStored(verify(example.source, hookRequest(example, { body }))),
    )
    // Twilio signs the fields: %2b is %2B.
    if (name === 'twilio') t.ok(accepted.length > 0)
    else t.same(accepted, [], name)
    for (const body of accepted) t.equal(stored(body), stored(Buffer.from(example.body)), String(body))
  }
})

t.test('no signature, timestamp, signed id or password that differs in one bit is accepted', async (t) => {
  for (const [name, example] of examples) {
    for (const header of example.covered) {
      const text = example.headers[header]!
      for (const changed of bitFlips(Buffer.from(text, 'latin1'))) {
        const headers = { [header]: changed.toString('latin1') }
        // The name of the scheme is not case-sensitive.
        const isScheme = /^basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==$/.test(
          headers[header]!.replace(/^basic/i, 'basic'),
        )
        if (name === 'basic' && isScheme) continue
        const verdict = verify(example.source, hookRequest(example, { headers }))
        if (verdict.ok) t.fail(`${name}: ${header}: ${headers[header]}`)
      }
    }
    t.pass(name)
  }
  const { source, token } = hookExamples.secret_url
  for (const changed of bitFlips(Buffer.from(token))) {
    const request = hookRequest(hookExamples.secret_url, { token: changed.toString('latin1') })
    t.same(verify(source, request), { ok: false, reason: 'wrong_token' })
  }
})

t.test('a query that differs in one bit is rejected, where the URL is signed', async (t) => {
  const { twilio } = hookExamples
  for (const changed of bitFlips(Buffer.from(twilio.query))) {
    const request = hookRequest(twilio, { query: changed.toString('latin1') })
    t.notOk(verify(twilio.source, request).ok, request.query)
  }
})

t.test('a request without its signature says so', async (t) => {
  for (const [name, example] of examples) {
    const headers = Object.fromEntries(Object.keys(example.headers).map((header) => [header, '']))
    const request = { ...hookRequest(example, { headers }), token: undefined }
    const reason = name === 'secret_url' ? 'wrong_token' : 'missing_signature'
    t.same(verify(example.source, request), { ok: false, reason }, name)
  }
})

t.test('each secret of a rotation is accepted, in any order, and another one is not', async (t) => {
  for (const [name, example] of examples) {
    const [genuine = ''] = example.source.secrets
    const others = ['whsec_c2VjcmV0LW9mLWEtcm90YXRlZC1lbmRwb2ludA==', 'b', 'c', 'd']
    const accepts = (secrets: string[]) =>
      verify({ ...example.source, secrets } as OpenedSource, hookRequest(example)).ok
    for (let at = 0; at <= others.length; at++)
      t.ok(accepts([...others.slice(0, at), genuine, ...others.slice(at)]), `${name}, secret ${at}`)
    t.notOk(accepts(others), name)
    t.notOk(accepts([]), name)
  }
})

t.test('an empty secret verifies nothing, although everyone can sign with it', async (t) => {
  const now = 1614265330_000
  const body = Buffer.from('{"n":1}')
  const digest = createHmac('sha256', '').update(body).digest('hex')
  const request = { ...hookRequest(hookExamples.github), body, now }
  const headers = (name: string) => (name === 'x-hub-signature-256' ? `sha256=${digest}` : undefined)
  const source = { type: 'github', settings: {}, secrets: [''] } as const
  t.same(verify(source, { ...request, headers }), { ok: false, reason: 'wrong_signature' })
  const standard = createHmac('sha256', '').update(`a.1614265330.`).update(body).digest('base64')
  const signed: Record<string, string> = {
    'webhook-id': 'a',
    'webhook-timestamp': '1614265330',
    'webhook-signature': `v1,${standard}`,
  }
  for (const secret of ['', 'whsec_', 'whsec_!']) {
    const whole = { ...hookExamples.standard_webhooks.source, secrets: [secret] } as OpenedSource
    t.notOk(verify(whole, { ...request, headers: (name) => signed[name] }).ok, secret)
  }
})

t.test('both sides of the tolerance: the limit is accepted, a millisecond more is not', async (t) => {
  for (const name of ['standard_webhooks', 'stripe', 'slack', 'hmac'] as const) {
    const example: HookExample = hookExamples[name]
    const at = (offset: number) =>
      verify(example.source, hookRequest(example, { now: example.nowMs + offset }))
    for (const sign of [1, -1]) {
      t.ok(at(sign * 300_000).ok, `${name} ${sign}`)
      t.same(at(sign * 300_001), { ok: false, reason: 'expired_timestamp' }, `${name} ${sign}`)
    }
  }
})

t.test(
  'only a genuine request counts as expired: a forged one has a wrong signature at any time',
  async (t) => {
    const { stripe } = hookExamples
    const request = hookRequest(stripe, { body: Buffer.from('{}'), now: 0 })
    t.same(verify(stripe.source, request), { ok: false, reason: 'wrong_signature' })
  },
)

t.test('timestamps that are no decimal number of seconds are malformed', async (t) => {
  const { slack } = hookExamples
  for (const timestamp of [
    '',
    '1531420618.0',
    '-1',
    '+1531420618',
    '0x5b477d8a',
    '1e9',
    '1531420618000',
    '１',
  ]) {
    const request = hookRequest(slack, { headers: { 'x-slack-request-timestamp': timestamp } })
    t.same(verify(slack.source, request), { ok: false, reason: 'malformed' }, timestamp)
  }
})

t.test(
  'Standard Webhooks: several signatures and versions, the names of Svix, a secret without prefix',
  async (t) => {
    const { standard_webhooks: example } = hookExamples
    const accepts = (headers: Record<string, string>, source: OpenedSource = example.source) =>
      verify(source, hookRequest(example, { headers }))
    const signature = example.headers['webhook-signature']
    const other = `v1,${'A'.repeat(43)}=`
    t.match(accepts({ 'webhook-signature': `v1a,c2lnbmF0dXJl ${other} ${signature}` }), { ok: true })
    t.match(accepts({ 'webhook-signature': signature.replace('v1,', 'v2,') }), { reason: 'malformed' })
    t.match(accepts({ 'webhook-signature': `${other} `.repeat(15) + signature }), { ok: true })
    t.match(accepts({ 'webhook-signature': `${other} `.repeat(16) + signature }), { reason: 'malformed' })
    t.match(
      accepts({}, { ...example.source, secrets: ['MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] } as OpenedSource),
      { ok: true },
    )
    const svix = Object.fromEntries(
      Object.entries(example.headers).map(([name, value]) => [name.replace('webhook', 'svix'), value]),
    )
    const request: HookRequest = { ...hookRequest(example), headers: (name) => svix[name] }
    t.match(verify(example.source, request), { ok: true, deliveryId: example.deliveryId })
  },
)

t.test('Standard Webhooks: a signed text cannot be divided in another way', async (t) => {
  const { source, nowMs } = hookExamples.standard_webhooks
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const signature = createHmac('sha256', key).update('a.1614265330.1614265330.x=1').digest('base64')
  const as = (id: string, body: string) => {
    const headers: Record<string, string> = {
      'webhook-id': id,
      'webhook-timestamp': '1614265330',
      'webhook-signature': `v1,${signature}`,
    }
    const request = { method: 'POST', query: '', now: nowMs, body: Buffer.from(body) } as const
    return verify(source, { ...request, headers: (name) => headers[name] })
  }
  t.match(as('a', '1614265330.x=1'), { ok: true })
  t.same(as('a.1614265330', 'x=1'), { ok: false, reason: 'malformed' })
})

t.test(
  'Stripe: other schemes are ignored, one of several signatures is enough, one timestamp is required',
  async (t) => {
    const { stripe } = hookExamples
    const [t1 = '', v1 = ''] = stripe.headers['stripe-signature'].split(',')
    const other = `v1=${'0'.repeat(64)}`
    const as = (header: string) =>
      verify(stripe.source, hookRequest(stripe, { headers: { 'stripe-signature': header } }))
    t.ok(as(`${t1},${other},${v1},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aaeb816edb039989dc`).ok)
    t.ok(as(`${v1}, ${t1}`).ok)
    for (const header of [
      v1,
      t1,
      `${t1},${t1},${v1}`,
      `${t1},${v1.replace('v1', 'v0')}`,
      't=,v1=',
      'nonsense',
    ])
      t.same(as(header), { ok: false, reason: 'malformed' }, header)
  },
)

t.test('Stripe: the id is that at the beginning of the event, and nothing else', async (t) => {
  const idOf = (body: string) => {
    const signature = createHmac('sha256', 'whsec_1').update(`5.${body}`).digest('hex')
    const request = { method: 'POST', query: '', now: 5000, body: Buffer.from(body) } as const
    const headers = () => `t=5,v1=${signature}`
    const verdict = verify(
      { type: 'stripe', settings: { tolerance_seconds: 300 }, secrets: ['whsec_1'] },
      { ...request, headers },
    )
    t.ok(verdict.ok)
    return 'deliveryId' in verdict ? verdict.deliveryId : undefined
  }
  t.equal(idOf('{\n  "id": "evt_1NG8Du2",\n  "object": "event"}'), 'evt_1NG8Du2')
  t.equal(idOf('{"object":"event","id":"evt_1"}'), undefined)
  t.equal(idOf('{"id":"pi_1"}'), undefined)
  t.equal(idOf(`{"id":"evt_${'1'.repeat(300)}"}`), undefined)
  t.equal(idOf(''), undefined)
})

t.test('Twilio: repeated fields, JSON bodies and both forms of the port, as in its libraries', async (t) => {
  const { twilio } = hookExamples
  const as = (signature: string, url: string, changes: Parameters<typeof hookRequest>[1] = {}) => {
    const headers = { ...changes.headers, 'x-twilio-signature': signature }
    const source = { ...twilio.source, settings: { url } } as OpenedSource
    return verify(source, hookRequest(twilio, { ...changes, headers }))
  }
  const url = 'https://mycompany.com/myapp.php'
  const repeated = Buffer.from('Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234')
  t.ok(as('IK+Dwps556ElfBT0I3Rgjkr1wJU=', url, { body: repeated }).ok)
  t.ok(as('kvajT1Ptam85bY51eRf/AJRuM3w=', url).ok)
  t.ok(as('0ZXoZLH/DfblKGATFgpif+LLRf4=', url.replace('https', 'http')).ok)
  t.ok(as(twilio.headers['x-twilio-signature'], url.replace('.com', '.com:1234')).ok)
  const hash = '0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620'
  const json = {
    query: `${twilio.query}&bodySHA256=${hash}`,
    headers: { 'content-type': 'application/json' },
  }
  const body = Buffer.from('{"property": "value", "boolean": true}')
  t.ok(as('a9nBmqA0ju/hNViExpshrM61xv4=', url, { ...json, body }).ok)
  for (const changed of bitFlips(body))
    t.notOk(as('a9nBmqA0ju/hNViExpshrM61xv4=', url, { ...json, body: changed }).ok, changed.toString())
  // Without the hash in the URL, nothing covers such a body.
  t.same(as(twilio.headers['x-twilio-signature'], url, { body, headers: json.headers }), {
    ok: false,
    reason: 'malformed',
  })
})

t.test('hmac: each algorithm and encoding, prefixes, ids and timestamps', async (t) => {
  const body = '{"n":1}'
  const as = (source: ReturnType<typeof hmacSource>, headers: Record<string, string>) =>
    verify(source, {
      method: 'POST',
      query: '',
      now: 5_000_000,
      body: Buffer.from(body),
      headers: (name) => headers[name],
    })
  const sign = (text: string, algorithm = 'sha256', encoding: 'hex' | 'base64' = 'hex') =>
    createHmac(algorithm, 'key').update(text).digest(encoding)
  for (const algorithm of ['sha1', 'sha256', 'sha512'] as const) {
    for (const encoding of ['hex', 'base64'] as const) {
      const signature = sign(body, algorithm, encoding)
      t.ok(
        as(hmacSource({ algorithm, encoding }, 'key'), { 'x-signature': signature }).ok,
        `${algorithm} ${encoding}`,
      )
      t.notOk(as(hmacSource({ algorithm, encoding }, 'kez'), { 'x-signature': signature }).ok)
    }
  }
  t.ok(as(hmacSource({}, 'key'), { 'x-signature': sign(body).toUpperCase() }).ok, 'hex in upper case')
  const teams = hmacSource({ header: 'Authorization', prefix: 'HMAC ', encoding: 'base64' }, 'key')
  t.ok(as(teams, { authorization: `HMAC ${sign(body, 'sha256', 'base64')}` }).ok)
  const list = hmacSource({ prefix: 'v1=' }, 'key')
  t.ok(as(list, { 'x-signature': `v1=${'0'.repeat(64)},v1=${sign(body)}` }).ok)
  const inHeader = hmacSource(
    { prefix: 'v1=', template: '{timestamp}.{body}', timestamp_header: 'X-Signature' },
    'key',
  )
  t.ok(as(inHeader, { 'x-signature': `t=5000,v1=${sign(`5000.${body}`)}` }).ok)
  t.match(as(inHeader, { 'x-signature': `t=1000,v1=${sign(`1000.${body}`)}` }), {
    reason: 'expired_timestamp',
  })
  t.match(as(inHeader, { 'x-signature': `v1=${sign(`.${body}`)}` }), { reason: 'malformed' })
  const named = hmacSource({ template: 'constructor{body}' }, 'key')
  t.ok(as(named, { 'x-signature': sign(`constructor${body}`) }).ok, 'text that is the name of a method')
  const ids = hmacSource({ template: '{id}:{body}', id_header: 'X-Id' }, 'key')
  t.match(as(ids, { 'x-signature': sign(`7:${body}`), 'x-id': '7' }), { ok: true, deliveryId: '7' })
  t.match(as(ids, { 'x-signature': sign(`7:${body}`), 'x-id': '8' }), { reason: 'wrong_signature' })
})

t.test('hmac: a timestamp of thirteen digits is in milliseconds', async (t) => {
  const source = hmacSource({ template: '{timestamp}{body}', timestamp_header: 'X-Time' }, 'key')
  const signature = createHmac('sha256', 'key').update('1614265330123{}').digest('hex')
  const headers: Record<string, string> = { 'x-signature': signature, 'x-time': '1614265330123' }
  const at = (now: number) =>
    verify(source, {
      method: 'POST',
      query: '',
      now,
      body: Buffer.from('{}'),
      headers: (name) => headers[name],
    })
  t.ok(at(1614265330_123 + 300_000).ok)
  t.match(at(1614265330_123 + 300_001), { reason: 'expired_timestamp' })
})

t.test('a token in the path of a source without one does not exist', async (t) => {
  const { github } = hookExamples
  t.same(verify(github.source, hookRequest(github, { token: 'x' })), { ok: false, reason: 'wrong_token' })
})

t.test('ids that cannot be an Idempotency-Key are left out', async (t) => {
  const { github } = hookExamples
  for (const id of ['', 'ä', 'a b', 'a\n', 'x'.repeat(256)]) {
    const verdict = verify(github.source, hookRequest(github, { headers: { 'x-github-delivery': id } }))
    t.same(verdict, { ok: true, deliveryId: id === 'a\n' ? 'a' : undefined }, id)
  }
})
