import { createHmac } from 'node:crypto'
import t from 'tap'
import { verify } from '../../../../src/ingest/hooks/verify.ts'
import { type HookExample, hmacSource, hookExamples, hookRequest } from '../../../support/hooks.ts'

const text = (body: string) => ({
  ok: true,
  answer: { status: 200, type: 'text/plain; charset=utf-8', body },
})
const get = (query: string, headers: Record<string, string> = {}) =>
  ({ method: 'GET', query, body: Buffer.alloc(0), now: 0, headers: (name: string) => headers[name] }) as const

t.test('Meta: the challenge is returned for the verify token, and for no other', async (t) => {
  const source = hmacSource(
    { header: 'X-Hub-Signature-256', prefix: 'sha256=', verify_token: 'meatyhamhock' },
    'key',
  )
  const query = 'hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock'
  t.same(verify(source, get(query)), text('1158201444'))
  t.same(verify(source, get(query.replace('hock', 'hocK'))), { ok: false, reason: 'wrong_verify_token' })
  t.same(verify(source, get('hub.mode=subscribe&hub.challenge=1')), {
    ok: false,
    reason: 'wrong_verify_token',
  })
  t.same(verify(source, get('hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=meatyhamhock')), {
    ok: false,
    reason: 'malformed',
  })
  t.same(verify(source, get('')), { ok: false, reason: 'malformed' })
  for (const none of [null, '']) {
    const without = hmacSource({ verify_token: none }, 'key')
    const empty = 'hub.mode=subscribe&hub.challenge=1&hub.verify_token='
    t.same(verify(without, get(empty)), { ok: false, reason: 'wrong_verify_token' })
  }
})

t.test('a challenge that is not plain text or too long is not returned', async (t) => {
  const source = hmacSource({ verify_token: 'a' }, 'key')
  const as = (challenge: string) =>
    verify(
      source,
      get(`hub.mode=subscribe&hub.verify_token=a&hub.challenge=${encodeURIComponent(challenge)}`),
    ).ok
  t.ok(as('x'.repeat(1000)))
  for (const one of ['x'.repeat(1001), 'a\r\nSet-Cookie: b=c', 'ä', '\0', '']) t.notOk(as(one), one)
})

t.test('Slack: a signed url_verification gets its challenge back, an unsigned one does not', async (t) => {
  const { slack } = hookExamples
  const body = Buffer.from(
    '{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}',
  )
  // The body of docs.slack.dev/reference/events/url_verification; its signature is of openssl.
  const signature = 'v0=f9bd80929259f3f6d5fe3a3186c453c89cd1ad4862815a15837584f31c993652'
  const signed = hookRequest(slack, { body, headers: { 'x-slack-signature': signature } })
  t.same(verify(slack.source, signed), text('3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P'))
  t.same(verify(slack.source, hookRequest(slack, { body })), { ok: false, reason: 'wrong_signature' })
  t.same(verify(slack.source, { ...signed, now: 0 }), { ok: false, reason: 'expired_timestamp' })
})

t.test(
  'Slack: the type inside another object is no challenge, and event_id is that of the event',
  async (t) => {
    const { slack } = hookExamples
    const body = '{"event":{"type":"url_verification","event_id":"Ev1"},"challenge":"x","event_id":"Ev2"}'
    const digest = createHmac('sha256', slack.source.secrets[0]!)
      .update(`v0:1531420618:${body}`)
      .digest('hex')
    const headers = { 'x-slack-signature': `v0=${digest}` }
    t.same(verify(slack.source, hookRequest(slack, { body: Buffer.from(body), headers })), {
      ok: true,
      deliveryId: 'Ev2',
    })
  },
)

t.test('Zoom: the token is signed with the secret that Zoom used, also during a rotation', async (t) => {
  const example: HookExample = hookExamples.hmac
  // The body of developers.zoom.us/docs/api/webhooks; both signatures are of openssl.
  const request = hookRequest(example, {
    body: Buffer.from(
      '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}',
    ),
    headers: {
      'x-zm-signature': 'v0=75e35c313d5b19d7e5039088e0d945d92659762c2139b39a11695f24ea66017e',
    },
  })
  const body = {
    plainToken: 'qgg8vlvZRS6UYooatFL8Aw',
    encryptedToken: 'd9e0d764a78494688ba3f2d5c0ed4ca311394b4834d959759213424d2df961e3',
  }
  const { settings } = hookExamples.hmac.source
  const verdict = verify(hmacSource(settings, 'new-secret', 'zoom-secret-token'), request)
  t.same(verdict, { ok: true, answer: { status: 200, type: 'application/json', body: JSON.stringify(body) } })
  t.same(verify(hmacSource(settings, 'new-secret'), request), { ok: false, reason: 'wrong_signature' })
})

t.test(
  'challenges without proof of the sender are returned only for the right token or password',
  async (t) => {
    const { secret_url, basic } = hookExamples
    const token = secret_url.token
    t.same(verify(secret_url.source, { ...get('challenge=abc'), token }), text('abc'))
    t.same(verify(secret_url.source, { ...get('validationToken=a%3Ab'), token }), text('a:b'))
    t.same(verify(secret_url.source, { ...get('', { 'x-okta-verification-challenge': 'abc' }), token }), {
      ok: true,
      answer: { status: 200, type: 'application/json', body: '{"verification":"abc"}' },
    })
    t.same(verify(secret_url.source, get('challenge=abc')), { ok: false, reason: 'wrong_token' })
    t.same(verify(secret_url.source, { ...get('challenge=abc'), token: 'x' }), {
      ok: false,
      reason: 'wrong_token',
    })
    t.same(verify(secret_url.source, { ...get(''), token }), { ok: false, reason: 'malformed' })
    t.same(verify(basic.source, get('challenge=abc', basic.headers)), text('abc'))
    t.same(verify(basic.source, get('challenge=abc')), { ok: false, reason: 'missing_signature' })
    const graph = { ...get('validationToken=abc'), method: 'POST', token } as const
    t.same(verify(secret_url.source, graph), text('abc'))
    t.same(verify(secret_url.source, { ...graph, body: Buffer.from('{}') }), { ok: true })
    for (const name of ['github', 'stripe', 'shopify', 'slack', 'twilio', 'standard_webhooks'] as const)
      t.same(
        verify(hookExamples[name].source, get('challenge=abc')),
        { ok: false, reason: 'malformed' },
        name,
      )
  },
)

t.test('a secret URL with a verify token wants it too', async (t) => {
  const { source, token } = hookExamples.secret_url
  const strict = { ...source, settings: { verify_token: 'a' } } as const
  const query = 'hub.mode=subscribe&hub.challenge=1'
  t.same(verify(strict, { ...get(query), token }), { ok: false, reason: 'wrong_verify_token' })
  t.same(verify(strict, { ...get(`${query}&hub.verify_token=a`), token }), text('1'))
  t.same(verify(source, { ...get(query), token }), { ok: false, reason: 'wrong_verify_token' })
})
