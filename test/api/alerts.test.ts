/** Where alerts go: every field, status and error of /v1/alerts on the real daemon (docs/dev/contract.md#alerts). */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { alertEventNames } from '../../src/contract/alert-words.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { verifiedSignature } from '../support/webhook.ts'
import { checkedApi, errorsIn, secretMark } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const secret = `whsec_${Buffer.from(`${secretMark} of at least 24 bytes`).toString('base64')}`
const nothing = { alerts: null, status: null }
const never = { pending_alerts: 0, last_sent_ts: null, last_failure: null }
const put = (body: unknown) => api('PUT', '/v1/alerts', body)
const shown = async () => (await api('GET', '/v1/alerts')).body

t.test('none are set up: null, and a test says so', async (t) => {
  t.same(await shown(), nothing)
  const answer = await api('POST', '/v1/alerts/test')
  t.match(answer, { status: 404, body: { error: 'alerts_not_set_up' } })
  t.equal((await api('DELETE', '/v1/alerts')).status, 204)
})

t.test('PUT: defaults, every event alone, secrets redacted', async (t) => {
  const alerts = {
    url: 'https://example.com/hook',
    secret: null,
    format: 'standard',
    events: alertEventNames,
  }
  t.same((await put({ url: alerts.url })).body, { alerts, status: never })
  t.same(await shown(), { alerts, status: never })
  for (const event of alertEventNames)
    t.same(Object((await put({ url: alerts.url, events: [event] })).body.alerts).events, [event])
  const given = { url: `https://u:${secretMark}@example.com/a?k=${secretMark}`, secret, format: 'standard' }
  const redacted = { ...alerts, url: 'https://[redacted]@example.com/a?k=[redacted]', secret: '[redacted]' }
  t.same((await put(given)).body, { alerts: redacted, status: never })
  t.same((await put({ url: alerts.url, secret: null })).body.alerts, alerts, 'null removes the secret')
})

t.test('what is shown may be sent back, and keeps what is stored', async (t) => {
  const url = `${sink.url}/in?token=${secretMark}`
  await put({ url, secret })
  const { alerts } = await shown()
  t.same((await put(alerts)).body.alerts, alerts)
  await put({ ...Object(alerts), secret: '' })
  sink.deliveries.length = 0
  t.match((await api('POST', '/v1/alerts/test')).body, { ok: true, status: 200 })
  t.equal(sink.deliveries[0]?.path, `/in?token=${secretMark}`)
  t.ok(verifiedSignature(sink.deliveries[0]!, secret))
})

t.test('a stored secret goes to no other server', async (t) => {
  await put({ url: `https://example.com/a?k=${secretMark}`, secret })
  const other = { url: 'https://evil.example/a?k=[redacted]', secret: '[redacted]' }
  t.same(Object.keys(errorsIn(await put(other))).sort(), ['secret', 'url'])
  const both = await put({ url: 'https://evil.example/a', secret: '[redacted]' })
  t.match(errorsIn(both), { secret: /must be sent again/ })
})

t.test('format slack: the path is the secret, and cannot be had back', async (t) => {
  const url = `https://hooks.slack.com/services/T000/B000/${secretMark}`
  const stored = { url: 'https://hooks.slack.com/[redacted]', format: 'slack' }
  t.match((await put({ url, format: 'slack' })).body.alerts, stored)
  t.match((await put(stored)).body.alerts, stored, 'sent back')
  t.match(errorsIn(await put({ url: stored.url })), { url: /not \[redacted\]/ })
  t.match((await shown()).alerts, stored, 'a refused body changes nothing')
})

t.test('PUT: what is wrong is named by its field', async (t) => {
  const url = 'https://example.com/hook'
  const wrong: [object, string][] = [
    [{}, 'url'],
    [{ url: '' }, 'url'],
    [{ url: 5 }, 'url'],
    [{ url: 'ftp://example.com' }, 'url'],
    [{ url: 'nothing' }, 'url'],
    [{ url: `https://example.com/${'a'.repeat(4000)}` }, 'url'],
    [{ url: 'https://example.com/a?k=[redacted]&other=[redacted]' }, 'url'],
    [{ url, secret: 'short' }, 'secret'],
    [{ url, secret: 'whsec_c2hvcnQ=' }, 'secret'],
    [{ url, secret: 5 }, 'secret'],
    [{ url, format: 'xml' }, 'format'],
    [{ url, events: [] }, 'events'],
    [{ url, events: ['lane.stuck', 'lane.stuck'] }, 'events'],
    [{ url, events: 'lane.stuck' }, 'events'],
    [{ url, other: 1 }, 'other'],
  ]
  await api('DELETE', '/v1/alerts')
  for (const [body, field] of wrong)
    t.same(Object.keys(errorsIn(await put(body))), [field], JSON.stringify(body))
  t.same(Object.keys(errorsIn(await put({ url, events: ['lane.other'] }))), ['events.0'])
  t.same(Object.keys(errorsIn(await put({ url, secret: '[redacted]' }))), ['secret'], 'there is none to keep')
  t.equal((await put([])).status, 400)
  t.same(await shown(), nothing)
})

t.test('a test tells what came back, bounded and without secrets', async (t) => {
  await put({ url: `${sink.url}/in?token=${secretMark}`, secret })
  const test = async () => (await api('POST', '/v1/alerts/test')).body
  sink.deliveries.length = 0
  sink.respondWith(() => ({ body: 'thank you' }))
  t.same(await test(), {
    ok: true,
    status: 200,
    message: 'The receiver responded 200. Response: thank you',
  })
  const [first] = sink.deliveries
  t.match(JSON.parse(first!.text), { type: 'alert.test', workspace: { name: 'default' }, held_back: 0 })
  t.equal(first!.headers['webhook-id'], JSON.parse(first!.text).alert_id)
  sink.respondWith(({ path }) => ({ status: 500, body: `${path} ${'x'.repeat(10_000)}` }))
  const failed = await test()
  t.match(failed, { ok: false, status: 500, message: /^The receiver responded 500\. Response: \/in\?token=/ })
  t.ok(String(failed.message).length < 1024)
  sink.respondWith(() => ({ status: 302, headers: { location: 'http://169.254.169.254/' } }))
  t.match(await test(), { ok: false, status: 302, message: /a redirect to .*, which is not followed/ })
  sink.respondWith(() => ({ fault: 'garbage' }))
  t.match(await test(), { ok: false, status: null })
  sink.respondWith(() => ({}))
  await put({ url: `${sink.url}/services/${secretMark}`, format: 'slack' })
  sink.respondWith(({ path }) => ({ status: 404, body: `no such hook: ${path}` }))
  t.match(await test(), { ok: false, status: 404, message: /no such hook: \[redacted\]/ })
  t.match(JSON.parse(sink.deliveries.at(-1)!.text), {
    text: /This is a test/,
    blocks: [{ type: 'section' }, {}],
  })
  sink.respondWith(() => ({}))
})

t.test('scopes and workspaces', async (t) => {
  await put({ url: 'https://example.com/mine' })
  const other = await createWorkspace(daemon.dataDir, 'other')
  const asOther = { key: other.api_key }
  t.same((await api('GET', '/v1/alerts', undefined, asOther)).body, nothing)
  t.equal((await api('POST', '/v1/alerts/test', undefined, asOther)).status, 404)
  t.equal((await api('DELETE', '/v1/alerts', undefined, asOther)).status, 204)
  t.match((await shown()).alerts, { url: 'https://example.com/mine' }, "the other one's are as they were")
  const made = await api('POST', '/v1/api-keys', { api_key_name: 'reader', api_key_scopes: ['read'] })
  const reader = { key: String(made.body.api_key) }
  t.equal((await api('GET', '/v1/alerts', undefined, reader)).status, 200)
  for (const [method, path, body] of [
    ['PUT', '/v1/alerts', { url: 'https://example.com' }],
    ['DELETE', '/v1/alerts', undefined],
    ['POST', '/v1/alerts/test', undefined],
  ] as const)
    t.equal((await api(method, path, body, reader)).body.error, 'forbidden', `${method} ${path}`)
  for (const [method, path] of [
    ['GET', '/v1/alerts'],
    ['PUT', '/v1/alerts'],
    ['DELETE', '/v1/alerts'],
    ['POST', '/v1/alerts/test'],
  ] as const)
    t.equal((await api(method, path, undefined, { key: null })).status, 401, `${method} ${path}`)
})

t.test('every change has its entry in the audit log, without a secret', async (t) => {
  await api('DELETE', '/v1/alerts')
  await put({ url: `https://example.com/a?k=${secretMark}-1`, secret })
  await put({ url: `https://example.com/a?k=${secretMark}-2`, secret, events: ['lane.stuck'] })
  await put({ url: `https://example.com/a?k=${secretMark}-2`, secret, events: ['lane.stuck'] })
  await api('DELETE', '/v1/alerts')
  const { audit } = (await api('GET', '/v1/audit?limit=3')).body
  const [removed, changed, made] = audit as { operation: string; before: object; after: object }[]
  t.match(removed, {
    operation: 'deleteAlerts',
    before: { url: 'https://example.com/a?k=[redacted]' },
    after: null,
  })
  t.match(changed, { operation: 'putAlerts', after: { secrets_changed: ['url'], events: ['lane.stuck'] } })
  t.match(made, { operation: 'putAlerts', before: null, after: { secret: '[redacted]' } })
})

t.test('nothing secret is in the log or in the clear in the metadata', async (t) => {
  await put({ url: `${sink.url}/in?token=${secretMark}`, secret })
  await api('POST', '/v1/alerts/test')
  t.notOk(JSON.stringify(daemon.log).includes(secretMark))
  for (const suffix of ['', '-wal'])
    t.notOk(readFileSync(`${daemon.dataDir}/metadata.db${suffix}`, 'latin1').includes(secretMark), suffix)
})
