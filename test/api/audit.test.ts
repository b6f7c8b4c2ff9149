/** The audit log on the real daemon: every change has its entry, by whom and from where, without a secret. */
import assert from 'node:assert/strict'
import t from 'tap'
import { type DestinationType, destinationTypes } from '../../src/contract/destination.ts'
import { secretKeys } from '../../src/contract/destination-words.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { Browser, password } from '../support/browser.ts'
import { TestAuthority } from '../support/certificates.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import {
  checkedApi,
  created,
  errorsIn,
  fullLimits,
  minimalDestination,
  secretMark,
} from './management-client.ts'

const daemon = await startDaemon({ env: { PIPECTL_TRUSTED_PROXIES: '127.0.0.1' } })
t.teardown(() => daemon.close())
const api = checkedApi(daemon)

interface Entry {
  audit_id: number
  operation: string
  actor: { kind: string; id: string | null; name: string | null }
  address: string | null
  resource_id: string | null
  pipe_id: string | null
  before: Record<string, unknown> | null
  after: Record<string, unknown> | null
}

async function entries(query = ''): Promise<Entry[]> {
  const answer = await api('GET', `/v1/audit?limit=500${query}`)
  assert.equal(answer.status, 200, answer.text)
  return Object(answer.body.audit)
}

t.test('every operation that changes something leaves an entry with its name', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'all' }, 'pipe_id')
  const on = `/v1/pipes/${pipe}`
  const pull = { destination_type: 'destination_pull', destination_config: {} }
  const table = {
    destination_type: 'destination_database',
    destination_config: { host: '127.0.0.1', database: 'd', username: 'u', password: 'p', table: 't' },
  }
  const destination = await created(api, `${on}/destinations`, pull, 'destination_id')
  const database = await created(api, `${on}/destinations`, table, 'destination_id')
  const at = `${on}/destinations/${destination}`
  const origin = await created(
    api,
    `${on}/allowed-origins`,
    { origin_domain: 'https://a.example' },
    'pipe_allowed_origin_id',
  )
  const key = await created(api, '/v1/api-keys', { api_key_name: 'first of two' }, 'api_key_id')
  const person = { user_email: 'eve@example.com', user_role: 'viewer', password }
  const user = Object((await api('POST', '/v1/users', person)).body.user).user_id
  const second = { ...person, user_email: 'eva@example.com', user_role: 'admin' }
  await api('POST', '/v1/users', second)
  const calls: [string, string, unknown?][] = [
    ['PATCH', on, { pipe_description: 'changed' }],
    ['PUT', `${on}/limits`, fullLimits],
    ['DELETE', `${on}/limits`],
    ['PUT', '/v1/alerts', { url: 'https://example.com/hook' }],
    ['DELETE', '/v1/alerts'],
    ['PATCH', at, { destination_max_retry_seconds: 5 }],
    ['PATCH', `${at}/status`, { destination_status: 'blocked' }],
    ['PATCH', `${at}/status`, { destination_status: 'active' }],
    ['POST', `${at}/skip`],
    ['POST', `${at}/retry-now`],
    ['POST', `${at}/rewind`, { to: 'earliest' }],
    ['POST', `${on}/destinations/${database}/reset-pin`],
    ['DELETE', `${on}/allowed-origins/${origin}`],
    ['POST', `/v1/api-keys/${key}/rotate`, { api_key_name: 'second of two' }],
    ['DELETE', `/v1/api-keys/${key}`],
    ['POST', '/v1/api-keys/purge'],
    ['PATCH', `/v1/users/${user}`, { user_role: 'admin' }],
    ['DELETE', `/v1/users/${user}`],
    ['POST', '/v1/setup-links', { user_role: 'viewer' }],
    ['POST', '/v1/privacy/jobs', { kind: 'find', keys: [{ path: 'email', value: 'eve@example.com' }] }],
    ['DELETE', at],
    ['DELETE', on],
  ]
  for (const [method, path, body] of calls) {
    const answer = await api(method, path, body)
    assert(answer.status < 300, `${method} ${path} ${answer.text}`)
  }
  const seen = new Set((await entries()).map((entry) => entry.operation))
  const changing = operationTable.filter(({ area, method }) => area === 'management' && method !== 'GET')
  // A test, a plan or a query changes nothing; the others take a server, a parked record or messages: tls-pin, infer-table,
  // management-parked, pipe-parked, management-replays, management-privacy.
  const without = new Set([
    ...['testDestination', 'tryTransform', 'queryDestination', 'testAlerts', 'resetTlsPin', 'inferTable'],
    ...['inferSchema', 'checkSchema'],
    ...['planReplay', 'createReplay', 'cancelReplay', 'cancelPrivacyJob'],
    ...['replayParked', 'replayManyParked', 'deleteParked', 'discardManyParked'],
    ...['editPipeParked', 'replayPipeParked', 'replayManyPipeParked', 'deletePipeParked'],
    'discardManyPipeParked',
  ])
  t.strictSame(
    changing.map((one) => one.operationId).filter((id) => !without.has(id) && !seen.has(id)),
    [],
  )
  const [updated] = await entries('&operation=updatePipe')
  t.match(updated, {
    actor: { kind: 'key', name: 'default' },
    address: '127.0.0.1',
    resource_id: pipe,
    pipe_id: pipe,
    before: { pipe_description: '' },
    after: { pipe_description: 'changed' },
  })
  t.strictSame(Object.keys(updated?.after ?? {}), ['pipe_description'], 'what is different, and no more')
  const [skipped] = await entries('&operation=skipBlockingMessage')
  t.match(skipped, { resource_id: destination, after: { skipped: false, status: 'no_blocking_message' } })
})

t.test('what was refused, and what changes nothing, leaves none', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'same' }, 'pipe_id')
  const before = (await entries()).length
  await api('POST', '/v1/pipes', { pipe_name: 'same' })
  await api('PATCH', `/v1/pipes/${pipe}`, { pipe_description: 5 })
  await api('PATCH', `/v1/pipes/${pipe}`, { pipe_status: 'active' })
  await api('GET', `/v1/pipes/${pipe}`)
  t.equal((await entries()).length, before)
  await api('PATCH', `/v1/pipes/${pipe}`, { pipe_status: 'paused' })
  t.equal((await entries()).length, before + 1, 'control')
})

const authority = new TestAuthority()
t.teardown(() => authority.close())
const client = authority.issue()

/** Every place of every type that holds a secret, each with the mark in it, if it takes that. */
const configs: Partial<Record<DestinationType, Record<string, unknown>[]>> = {
  destination_database: [
    {
      ...{ host: '127.0.0.1', database: 'd', username: 'u', password: secretMark, table: 't' },
      ...{ tls_cert: client.certificate, tls_key: client.key },
    },
  ],
  destination_object_store: [
    {
      bucket: 'b',
      endpoint: 'http://127.0.0.1:9',
      access_key: 'AKIA',
      secret_key: secretMark,
      session_token: secretMark,
    },
  ],
  destination_http_endpoint: [
    {
      url: `http://127.0.0.1:9/hook?token=${secretMark}`,
      auth_header: `Bearer ${secretMark}`,
      secret_headers: { 'x-token': secretMark },
      signing_secret: signingSecret(`${secretMark}-and-as-long-as-it-has-to-be`),
    },
  ],
  // One way to sign in each.
  destination_nats: [
    { username: 'u', password: secretMark },
    { token: secretMark },
    { nkey_seed: `SU${'A'.repeat(56)}` },
    { credentials: credentials(secretMark) },
    { tls_cert: client.certificate, tls_key: client.key },
  ].map((secrets) => ({ url: 'tls://127.0.0.1:9', subject: 'events', ...secrets })),
}

/** Another value of the same form. */
const others: Record<string, unknown> = {
  secret_headers: { 'x-token': `${secretMark}-2` },
  signing_secret: signingSecret(`${secretMark}-another-one-of-the-same-length`),
  nkey_seed: `SU${'B'.repeat(56)}`,
  credentials: credentials(`${secretMark}-2`),
}

function signingSecret(text: string): string {
  return `whsec_${Buffer.from(text).toString('base64')}`
}

function credentials(text: string): string {
  const seed = `SU${'A'.repeat(56)}`
  return `-----BEGIN NATS USER JWT-----\na.b.${text}\n------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`
}

t.test('no secret of any kind of destination is in it; that one was changed is', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'secretive' }, 'pipe_id')
  for (const type of destinationTypes) {
    const secrets = secretKeys(type)
    const bodies = configs[type] ?? [minimalDestination(type).destination_config]
    const tried = new Set(bodies.flatMap((config) => Object.keys(config)))
    t.strictSame(
      secrets.filter((key) => !tried.has(key)),
      [],
      `${type}: each is tried`,
    )
    const path = `/v1/pipes/${pipe}/destinations`
    for (const config of bodies) {
      const body = { destination_type: type, destination_config: config }
      const id = await created(api, path, body, 'destination_id')
      for (const key of secrets.filter((one) => Object.hasOwn(config, one))) {
        // The key must go with the certificate: the same one, written differently.
        const next =
          config[key] === client.key ? `${client.key}\n` : (others[key] ?? `${String(config[key])}-2`)
        const answer = await api('PATCH', `${path}/${id}`, { destination_config: { [key]: next } })
        assert.equal(answer.status, 200, answer.text)
        const [entry] = await entries(`&resource_id=${id}&operation=updateDestination`)
        t.match(JSON.stringify(entry?.after?.secrets_changed), key, `${type}.${key}`)
      }
      await api('DELETE', `${path}/${id}`)
    }
  }
  const all = await daemon.api('GET', '/v1/audit?limit=500')
  t.notMatch(all.text, secretMark)
  t.notMatch(all.text, client.key.split('\n')[1])
  t.notMatch(all.text, Buffer.from(secretMark).toString('base64').slice(0, 7))
  t.notMatch(all.text, password)
  t.notMatch(all.text, /ppl1_[0-9A-Za-z]{20}/)
  t.notMatch(all.text, /scrypt|SU[AB]{56}/)
  t.match(all.text, /\[redacted\]/, 'control: they are shown as set')
})

t.test('signing in, and failing to, is in it with the address that the proxy names', async (t) => {
  const email = 'ann@example.com'
  await api('POST', '/v1/users', { user_email: email, user_role: 'admin', password })
  const headers = { 'x-forwarded-for': '192.0.2.7' }
  const browser = new Browser(daemon.url, { headers })
  const wrong = await browser.api('POST', '/v1/session', { email, password: 'not the right one' })
  t.equal(wrong.status, 401)
  t.equal((await browser.api('POST', '/v1/session', { email, password })).status, 204)
  await until('the failure is recorded', async () => (await entries('&operation=signInFailed')).length === 1)
  const [failed] = await entries('&operation=signInFailed')
  const [began] = await entries('&operation=signIn')
  for (const entry of [failed, began])
    t.match(entry, { actor: { kind: 'user', name: email }, address: '192.0.2.7' })
  const session = await browser.api('GET', '/v1/session')
  const csrf = { 'x-csrf-token': String(session.body.csrf_token) }
  const made = await browser.api('POST', '/v1/pipes', { pipe_name: 'by-hand' }, csrf)
  t.equal(made.status, 201, made.text)
  const [byHand] = await entries('&operation=createPipe')
  t.match(byHand, {
    actor: { kind: 'user', name: email },
    address: '192.0.2.7',
    after: { pipe_name: 'by-hand' },
  })
})

t.test('pages from the newest on, filters, and what they may be', async (t) => {
  const all = await entries()
  const found: number[] = []
  let after = ''
  for (;;) {
    const { body } = await api('GET', `/v1/audit?limit=7${after}`)
    found.push(...Object(body.audit).map((entry: Entry) => entry.audit_id))
    if (body.next === null) break
    after = `&after=${body.next}`
  }
  t.strictSame(
    found,
    all.map((entry) => entry.audit_id),
  )
  t.strictSame(
    found,
    [...found].sort((a, b) => b - a),
  )
  t.strictSame(await entries(`&since=${new Date(Date.now() + 60_000).toISOString()}`), [])
  t.equal((await entries('&since=2020-01-01T00:00:00Z')).length, all.length)
  for (const [query, field] of [
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['after=x', 'after'],
    ['since=soon', 'since'],
  ] as const)
    t.strictSame(Object.keys(errorsIn(await api('GET', `/v1/audit?${query}`))), [field])
})

t.test('another workspace sees nothing of it, and a key for one pipe what is of that pipe', async (t) => {
  const other = await createWorkspace(daemon.dataDir, 'other')
  const theirs = await api('GET', '/v1/audit', undefined, { key: other.api_key })
  t.match(theirs.body.audit, [
    { operation: 'createSetupLink' },
    { operation: 'createWorkspace', actor: { kind: 'local' } },
  ])
  t.equal(Object(theirs.body.audit).length, 2)
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'bound' }, 'pipe_id')
  const { body } = await api('POST', '/v1/api-keys', { api_key_name: 'bound', api_key_pipe_ids: [pipe] })
  const seen = await api('GET', '/v1/audit', undefined, { key: String(body.api_key) })
  t.strictSame(
    Object(seen.body.audit).map((entry: Entry) => [entry.operation, entry.pipe_id]),
    [
      ['createApiKey', pipe],
      ['createPipe', pipe],
    ],
  )
})

t.test('each is one line of the log', async (t) => {
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'logged' }, 'pipe_id')
  await until('the line', async () =>
    daemon.log.some((line) => line.msg === 'audit' && line.pipe_id === pipe),
  )
  const lines = daemon.log.filter((line) => line.msg === 'audit' && line.pipe_id === pipe)
  t.match(lines, [{ level: 'info', operation: 'createPipe', actor_kind: 'key', actor_name: 'default' }])
  t.equal(lines.length, 1)
})
