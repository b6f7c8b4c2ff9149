/**
 * Webhooks of providers on the real daemon, on each HTTP engine and with threads of ingest: what is accepted is stored
 * like a request of ingest, and everything else leaves nothing but a count.
 */
import { createHmac, randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { request } from 'undici'
import type { Answer } from '../support/api-client.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const environments: Record<string, Record<string, string>> = {
  uws: { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '1' },
  'threads of ingest': { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '3' },
  node: { PIPECTL_HTTP_ENGINE: 'node', PIPECTL_INGEST_WORKERS: '1' },
}
/** In every secret of this file: it must not appear in clear text anywhere. */
const mark = 'hookSecretMark7'

for (const [name, env] of Object.entries(environments))
  t.test(name, async (t) => {
    const daemon = await startDaemon({ env })
    t.teardown(() => daemon.close())
    for (const [what, test] of Object.entries(tests)) await t.test(what, (t) => test(t, daemon))
    await t.test('secrets are nowhere in clear text', (t) => nowhere(t, daemon))
  })

interface Pipe {
  id: string
  token: string
}

async function createPipe(daemon: TestDaemon, source: object | null, more: object = {}): Promise<Pipe> {
  const body = { pipe_name: `p${randomUUID()}`, pipe_source: source, ...more }
  const answer = await daemon.api('POST', '/v1/pipes', body)
  if (answer.status !== 201) throw new Error(answer.text)
  return { id: String(answer.body.pipe_id), token: String(answer.body.pipe_source_token ?? '') }
}

const github = (...names: string[]) => ({ type: 'github', secrets: names.map((one) => `${mark} ${one}`) })

function signed(body: string, name = 'first', more: Record<string, string> = {}): Record<string, string> {
  const signature = createHmac('sha256', `${mark} ${name}`).update(body).digest('hex')
  return { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}`, ...more }
}

function send(
  daemon: TestDaemon,
  where: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return daemon.api('POST', `/v1/hooks/${where}`, body, { key: null, headers })
}

async function stored(daemon: TestDaemon, { body }: Answer): Promise<Record<string, unknown>[]> {
  const answer = await daemon.api('GET', `/v1/messages/${body.msg_id}`)
  return Object(answer.body).records
}

async function rejectedHooks(daemon: TestDaemon, id: string): Promise<Record<string, number>> {
  return Object((await daemon.api('GET', `/v1/pipes/${id}/usage?hours=1`)).body.rejected_hooks)
}

async function storedRecords(daemon: TestDaemon, id: string): Promise<unknown> {
  const { body } = await daemon.api('GET', '/v1/pipes')
  return Object(body.usage_by_pipe)[id].ingest_records
}

/** Threads of ingest hand their counts over after the response. */
async function counts(t: Test, daemon: TestDaemon, id: string, records: number): Promise<void> {
  await until('the records are counted', async () => Number(await storedRecords(daemon, id)) >= records)
  t.equal(await storedRecords(daemon, id), records)
}

async function countsRejected(
  t: Test,
  daemon: TestDaemon,
  id: string,
  expected: Record<string, number>,
): Promise<void> {
  const sum = (counted: Record<string, number>) => Object.values(counted).reduce((a, b) => a + b, 0)
  await until('the rejections are counted', async () => sum(await rejectedHooks(daemon, id)) >= sum(expected))
  t.same(await rejectedHooks(daemon, id), expected)
}

/** At the address of a signed source, or with the token of a secret URL. */
async function checkedAsInIngest(t: Test, daemon: TestDaemon, source: object): Promise<void> {
  const { id, token } = await createPipe(daemon, source)
  const where = token === '' ? id : `${id}/${token}`
  const post = (body: string, more: Record<string, string> = {}) =>
    send(daemon, where, body, signed(body, 'first', more))
  t.equal((await post('{"n":1}', { 'content-encoding': 'gzip' })).status, 415)
  const two = await post('[{"n":1},{"n":2}]')
  t.equal(two.body.records_count, 2)
  t.match(await post('{"n":'), { status: 400, body: { error: 'invalid_payload' } })
  t.match(await post('[]'), { status: 400, body: { error: 'empty_payload' } })
  t.match(await post(''), { status: 400, body: { error: 'empty_payload' } })
  await daemon.api('PUT', `/v1/pipes/${id}/limits`, {
    pl_ingest_max_records_per_request: 2,
    pl_ingest_max_records_per_second: 1000,
    pl_ingest_max_records_per_day: 3,
    pl_delivery_max_records_per_flush: 10,
    pl_delivery_max_bytes_per_flush: 1000,
    pl_delivery_max_seconds_per_flush: 1,
  })
  t.match(await post('[{"n":1},{"n":2},{"n":3}]'), { status: 413, body: { error: 'batch_too_large' } })
  t.equal((await post('{"n":3}')).status, 202)
  t.match(await post('{"n":4}'), { status: 429, body: { error: 'daily_quota_exceeded' } })
  await daemon.api('PUT', `/v1/pipes/${id}/limits`, {
    pl_ingest_max_records_per_request: 50,
    pl_ingest_max_records_per_second: 1,
    pl_ingest_max_records_per_day: 1000,
    pl_delivery_max_records_per_flush: 10,
    pl_delivery_max_bytes_per_flush: 1000,
    pl_delivery_max_seconds_per_flush: 1,
  })
  const many = JSON.stringify(Array.from({ length: 50 }, (_, n) => ({ n })))
  t.match(
    await until('the rate is exceeded', async () => {
      const answer = await post(many)
      return answer.status === 202 ? null : answer
    }),
    { status: 429, body: { error: 'rate_limit_exceeded' } },
  )
  await daemon.api('DELETE', `/v1/pipes/${id}/limits`)
  await daemon.createDestination(id, {
    destination_type: 'destination_database',
    destination_config: {
      host: '127.0.0.1',
      port: 1,
      database: 'd',
      username: 'u',
      password: 'p',
      table: 't',
    },
    columns: [{ column_name: 'id', column_type: 'number', source_field: 'id', nullable: false }],
  })
  t.match(await post('{"n":5}'), {
    status: 400,
    body: { error: 'missing_required_fields', fields: ['id'] },
  })
}

type HookTest = (t: Test, daemon: TestDaemon) => Promise<void>

const tests: Record<string, HookTest> = {
  'a signed webhook is stored with headers, raw body and enrichment': async (t, daemon) => {
    const { id } = await createPipe(daemon, github('first'), {
      pipe_source_headers: ['X-GitHub-Event', 'x-absent'],
      pipe_source_raw: true,
      pipe_add_ingest_ip: true,
    })
    const body = '{ "action":"opened", "n":1.10, "headers":"of the provider" }'
    const answer = await send(daemon, id, body, signed(body, 'first', { 'x-github-event': 'issues' }))
    t.equal(answer.status, 202, answer.text)
    t.match(answer.body, { accepted: true, pipe_id: id, records_count: 1 })
    const [record] = await stored(daemon, answer)
    t.match(record, { action: 'opened', headers: { 'x-github-event': 'issues' }, raw_body: body })
    t.match(record, { ingest_ip: '127.0.0.1', ingest_ts: /^20/ })
    await counts(t, daemon, id, 1)
  },

  'an array is several records; required fields, limits and JSON are checked as in ingest': async (
    t,
    daemon,
  ) => {
    for (const source of [github('first'), { type: 'secret_url' }]) await checkedAsInIngest(t, daemon, source)
  },

  'an unknown pipe, one without a source, a paused one and another token look the same': async (
    t,
    daemon,
  ) => {
    const [plain, open] = [await createPipe(daemon, null), await createPipe(daemon, { type: 'secret_url' })]
    const paused = await createPipe(daemon, github('first'))
    const verified = await createPipe(daemon, github('first'))
    await daemon.api('PATCH', `/v1/pipes/${paused.id}`, { pipe_status: 'paused' })
    const other = 'A'.repeat(open.token.length)
    const wrong = [
      ...[plain.id, paused.id, open.id, randomUUID(), 'no-uuid'],
      ...[
        `${plain.id}/${other}`,
        `${open.id}/${other}`,
        `${open.id}/${open.token}x`,
        `${verified.id}/${other}`,
      ],
    ]
    const found = new Set<string>()
    for (const where of wrong) {
      const { status, text, headers } = await send(daemon, where, '{"n":1}', signed('{"n":1}'))
      const { date: _, ...others } = headers
      found.add(JSON.stringify([status, text, others]))
      const get = await daemon.api('GET', `/v1/hooks/${where}`, undefined, { key: null })
      t.equal(get.text, text, `GET ${where}`)
    }
    t.equal(found.size, 1, [...found].join('\n'))
    t.match([...found][0], /^\[404,.*hook_not_found/)
    t.equal((await send(daemon, `${open.id}/${open.token}`, '{"n":1}')).status, 202, 'control')
    await counts(t, daemon, open.id, 1)
    await countsRejected(t, daemon, open.id, { wrong_token: 6 })
  },

  'a webhook that cannot be verified is 401, counted by reason, and nothing is stored': async (t, daemon) => {
    const { id } = await createPipe(daemon, github('first'))
    const body = '{"n":1}'
    const refused = async (headers: Record<string, string>, reason: string, sent = body) => {
      const answer = await send(daemon, id, sent, { 'content-type': 'application/json', ...headers })
      t.match(answer, { status: 401, body: { error: 'hook_rejected', reason } })
      t.equal(answer.headers['www-authenticate'], 'Signature')
    }
    await refused({}, 'missing_signature')
    await refused({ authorization: `Bearer ${daemon.apiKey}` }, 'missing_signature')
    await refused(signed(body, 'other'), 'wrong_signature')
    await refused(signed(body), 'wrong_signature', '{"n":2}')
    await refused({ 'x-hub-signature-256': 'sha1=1' }, 'malformed')
    await countsRejected(t, daemon, id, { missing_signature: 2, wrong_signature: 2, malformed: 1 })
    const { body: list } = await daemon.api('GET', '/v1/pipes')
    t.match(Object(list.usage_by_pipe)[id], {
      ingest_records: 0,
      rejected_requests: 5,
      rejected_hooks: { malformed: 1 },
    })
    const metrics = await (await request(daemon.metricsUrl)).body.text()
    t.match(
      metrics,
      new RegExp(`pipectl_hooks_rejected_total\\{pipe_id="${id}",.*reason="wrong_signature"\\} 2`),
    )
    t.match(metrics, /pipectl_ingest_errors_total\{error="hook_rejected",status="401"\} \d/)
  },

  'a timestamp outside the tolerance is rejected, each secret of a rotation is accepted': async (
    t,
    daemon,
  ) => {
    const source = { type: 'stripe', secrets: [`${mark} old`], tolerance_seconds: 60 }
    const { id } = await createPipe(daemon, source)
    const post = (secret: string, ageSeconds = 0) => {
      const [body, at] = [`{"id":"evt_${randomUUID()}"}`, Math.floor(Date.now() / 1000) - ageSeconds]
      const v1 = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')
      return send(daemon, id, body, {
        'content-type': 'application/json',
        'stripe-signature': `t=${at},v1=${v1}`,
      })
    }
    t.equal((await post(`${mark} old`)).status, 202)
    t.match(await post(`${mark} old`, 600), { status: 401, body: { reason: 'expired_timestamp' } })
    const shown = async () => Object((await daemon.api('GET', `/v1/pipes/${id}`)).body.pipe).pipe_source
    const [kept] = (await shown()).secrets
    const secrets = [`${mark} new`, kept]
    const added = await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_source: { type: 'stripe', secrets } })
    t.equal(added.status, 200, added.text)
    const both = await shown()
    t.match(both, { type: 'stripe', tolerance_seconds: 60, secrets: [{ secret_id: String }, kept] })
    t.equal((await post(`${mark} old`)).status, 202)
    t.equal((await post(`${mark} new`)).status, 202)
    const only = { type: 'stripe', secrets: [both.secrets[0]] }
    t.equal((await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_source: only })).status, 200)
    t.match(await post(`${mark} old`), { status: 401, body: { reason: 'wrong_signature' } })
    t.equal((await post(`${mark} new`)).status, 202)
    const { body: audit } = await daemon.api('GET', `/v1/audit?resource_id=${id}&operation=updatePipe`)
    t.match(Object(audit).audit[0].after, { secrets_changed: ['pipe_source.secrets'] })
    t.notMatch(JSON.stringify(audit), mark)
  },

  'a delivery that is repeated is stored once, even with another body': async (t, daemon) => {
    const { id } = await createPipe(daemon, github('first'))
    const delivery = { 'x-github-delivery': randomUUID() }
    const post = (body: string) => send(daemon, id, body, signed(body, 'first', delivery))
    const [first, again, changed] = [await post('{"n":1}'), await post('{"n":1}'), await post('{"n":2}')]
    t.equal(first.status, 202)
    t.equal(again.body.msg_id, first.body.msg_id)
    t.equal(changed.body.msg_id, first.body.msg_id)
    await counts(t, daemon, id, 1)
  },

  'challenges are answered and nothing is stored': async (t, daemon) => {
    const slack = await createPipe(daemon, { type: 'slack', secrets: [`${mark} slack`] })
    const at = String(Math.floor(Date.now() / 1000))
    const sign = (body: string) => ({
      'x-slack-request-timestamp': at,
      'x-slack-signature': `v0=${createHmac('sha256', `${mark} slack`).update(`v0:${at}:${body}`).digest('hex')}`,
    })
    const challenge = '{"type":"url_verification","challenge":"c-123"}'
    const json = { 'content-type': 'application/json' }
    const answer = await send(daemon, slack.id, challenge, { ...json, ...sign(challenge) })
    t.equal(answer.status, 200)
    t.match(answer.text, /c-123/)
    t.equal(answer.headers['x-content-type-options'], 'nosniff')
    const form = `payload=${encodeURIComponent('{"type":"block_actions","n":1}')}`
    const headers = { 'content-type': 'application/x-www-form-urlencoded', ...sign(form) }
    const stored = await send(daemon, slack.id, form, headers)
    t.match(stored, { status: 200, text: '' }, 'Slack shows the body of a response to the person')
    // The form, and not the challenge.
    await counts(t, daemon, slack.id, 1)

    const source = {
      type: 'hmac',
      header: 'x-hub-signature-256',
      prefix: 'sha256=',
      secrets: [`${mark} first`],
    }
    const meta = await createPipe(daemon, { ...source, verify_token: `${mark} verify` })
    const ask = (token: string) => {
      const query = new URLSearchParams({
        'hub.mode': 'subscribe',
        'hub.challenge': '4711',
        'hub.verify_token': token,
      })
      return daemon.api('GET', `/v1/hooks/${meta.id}?${query}`, undefined, { key: null })
    }
    t.match(await ask(`${mark} verify`), { status: 200, text: '4711' })
    t.match(await ask('guess'), { status: 401, body: { reason: 'wrong_verify_token' } })
    t.equal((await send(daemon, meta.id, '{"n":1}', signed('{"n":1}'))).status, 202)
    t.match(Object((await daemon.api('GET', `/v1/pipes/${meta.id}`)).body.pipe).pipe_source, {
      verify_token: '[redacted]',
    })
  },

  'a secret URL answers the challenges of providers that sign nothing': async (t, daemon) => {
    const { id, token } = await createPipe(daemon, { type: 'secret_url' })
    const where = `${id}/${token}`
    const get = (query: string) => daemon.api('GET', `/v1/hooks/${where}?${query}`, undefined, { key: null })
    t.match(await get('challenge=c-4711'), { status: 200, text: 'c-4711' })
    t.match(await get('other=1'), { status: 401, body: { error: 'hook_rejected', reason: 'malformed' } })
    t.match(await send(daemon, `${where}?validationToken=t-4711`, ''), { status: 200, text: 't-4711' })
    t.match(await send(daemon, `${where}?validationToken=%00`, ''), {
      status: 401,
      body: { error: 'hook_rejected', reason: 'malformed' },
    })
    t.equal(await storedRecords(daemon, id), 0)
  },

  'a form becomes one object of strings; the token of a secret URL can be replaced': async (t, daemon) => {
    const pipe = await createPipe(daemon, { type: 'secret_url' })
    t.match(pipe.token, /^[\w-]{43}$/)
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const post = (token: string) => send(daemon, `${pipe.id}/${token}`, 'a=1&b=x+y&b=%C3%A4', form)
    const answer = await post(pipe.token)
    t.equal(answer.status, 202, answer.text)
    t.match((await stored(daemon, answer))[0], { a: '1', b: ['x y', 'ä'] })
    const [kept] = Object((await daemon.api('GET', `/v1/pipes/${pipe.id}`)).body.pipe).pipe_source.secrets
    const more = { pipe_source: { type: 'secret_url', secrets: [kept, { generate: true }] } }
    const changed = await daemon.api('PATCH', `/v1/pipes/${pipe.id}`, more)
    const next = String(changed.body.pipe_source_token)
    t.match(next, /^[\w-]{43}$/)
    t.equal((await post(next)).status, 202)
    t.equal((await post(pipe.token)).status, 202)
    const { secrets } = Object(changed.body.pipe).pipe_source
    await daemon.api('PATCH', `/v1/pipes/${pipe.id}`, {
      pipe_source: { type: 'secret_url', secrets: [secrets[1]] },
    })
    t.equal((await post(pipe.token)).status, 404)
    t.equal((await post(next)).status, 202)
    t.match(await send(daemon, `${pipe.id}/${next}`, '<a/>', { 'content-type': 'text/xml' }), {
      status: 400,
      body: { error: 'invalid_payload' },
    })
  },

  'a user and a password are accepted as a source': async (t, daemon) => {
    const { id } = await createPipe(daemon, { type: 'basic', user: 'ada', secrets: [`${mark} basic`] })
    const json = { 'content-type': 'application/json' }
    const as = (text: string) => ({ ...json, authorization: `Basic ${Buffer.from(text).toString('base64')}` })
    t.equal((await send(daemon, id, '{"n":1}', as(`ada:${mark} basic`))).status, 202)
    const wrong = await send(daemon, id, '{"n":1}', as('ada:guess'))
    t.match(wrong, { status: 401, body: { reason: 'wrong_credentials' } })
    t.equal(wrong.headers['www-authenticate'], 'Basic realm="webhooks"')
  },

  'the size of body and headers is limited, compression and other methods are rejected': async (
    t,
    daemon,
  ) => {
    const { id } = await createPipe(daemon, github('first'))
    const large = `{"n":"${'x'.repeat(11 * 1024 * 1024)}"}`
    t.match(await send(daemon, id, large, signed(large)), {
      status: 413,
      body: { error: 'payload_too_large' },
    })
    const compressed = signed('{"n":1}', 'first', { 'content-encoding': 'gzip' })
    t.match(await send(daemon, id, '{"n":1}', compressed), { status: 415 })
    const put = await daemon.api('PUT', `/v1/hooks/${id}`, '{}', { key: null })
    t.match(put, { status: 405, headers: { allow: 'POST, GET, HEAD' } })
    t.equal(await storedRecords(daemon, id), 0)
  },

  'unsigned requests are rejected before their body is read': async (t, daemon) => {
    const { id } = await createPipe(daemon, github('first'))
    const head = `POST /v1/hooks/${id} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n`
    const connections = await Promise.all(Array.from({ length: 40 }, () => connectRaw(daemon.dataUrl)))
    t.teardown(() => {
      for (const connection of connections) connection.reset()
    })
    for (const connection of connections) connection.write(head)
    // None of them has sent a byte of its body.
    for (const connection of connections) t.equal((await connection.answer()).status, 401)
    await countsRejected(t, daemon, id, { missing_signature: 40 })
    t.equal((await send(daemon, id, '{"n":1}', signed('{"n":1}'))).status, 202, 'others are served')
  },

  'settings that make no sense are rejected, with the field': async (t, daemon) => {
    const errors = async (body: object) => {
      const answer = await daemon.api('POST', '/v1/pipes', { pipe_name: `p${randomUUID()}`, ...body })
      t.equal(answer.status, 400, JSON.stringify(body))
      t.notMatch(answer.text, mark)
      return Object.keys(Object(answer.body.errors))
    }
    const secrets = [`${mark} x`]
    t.same(await errors({ pipe_source: { type: 'github' } }), ['pipe_source.secrets'])
    t.same(await errors({ pipe_source: { type: 'github', secrets: [] } }), ['pipe_source.secrets'])
    t.same(await errors({ pipe_source: { type: 'none', secrets } }), ['pipe_source.type'])
    t.same(await errors({ pipe_source: { type: 'github', secrets, url: 'x' } }), ['pipe_source.url'])
    t.same(await errors({ pipe_source: { type: 'twilio', secrets } }), ['pipe_source.url'])
    t.same(await errors({ pipe_source: { type: 'secret_url', secrets } }), ['pipe_source.secrets.0'])
    const hmac = { type: 'hmac', secrets, header: 'x-sig' }
    t.same(await errors({ pipe_source: { ...hmac, template: 'x' } }), ['pipe_source.template'])
    t.same(await errors({ pipe_source: { ...hmac, template: '{timestamp}{body}' } }), [
      'pipe_source.timestamp_header',
    ])
    t.same(await errors({ pipe_source_headers: ['Authorization'] }), ['pipe_source_headers.0'])
    t.same(await errors({ pipe_source: hmac, pipe_source_headers: ['a', 'X-Sig'] }), [
      'pipe_source_headers.1',
    ])
    t.same(await errors({ pipe_source_headers: ['a'], pipe_ingest_ts_field: 'headers' }), [
      'pipe_source_headers',
    ])
    const unknown = [{ secret_id: randomUUID() }]
    t.same(await errors({ pipe_source: { type: 'github', secrets: unknown } }), ['pipe_source.secrets.0'])
    const { id } = await createPipe(daemon, github('first'))
    t.equal((await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_source: null })).status, 200)
    t.equal((await send(daemon, id, '{"n":1}', signed('{"n":1}'))).status, 404, 'the source is removed')
  },
}

/** The last test of a daemon: its files, its log and the responses of its API. */
async function nowhere(t: Test, daemon: TestDaemon): Promise<void> {
  const { id, token } = await createPipe(daemon, { type: 'secret_url' })
  t.equal((await send(daemon, `${id}/${token}`, '{"found":"yes-this-record"}')).status, 202)
  const texts = ['/v1/pipes', '/v1/audit?limit=500', `/v1/pipes/${id}`, '/v1/overview'].map(async (where) => {
    return (await daemon.api('GET', where)).text
  })
  for (const text of await Promise.all(texts)) {
    t.notMatch(text, mark)
    t.notOk(text.includes(token))
  }
  await daemon.stop()
  const files = readdirSync(daemon.dataDir, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(daemon.dataDir, name))
    .filter((file) => statSync(file).isFile())
  const contents = files.map((file) => readFileSync(file))
  const has = (text: string) => files.filter((_, index) => contents[index]!.includes(text))
  t.same(has(mark), [], 'no file has a secret')
  t.same(has(token), [], 'no file has a token')
  t.ok(has('yes-this-record').length > 0, 'control: the search finds what is stored')
  const log = daemon.log.map((line) => JSON.stringify(line)).join('\n')
  t.notMatch(log, mark)
  t.notOk(log.includes(token))
}

t.test('after a restart the secrets are still used, and rejections are still counted', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const { id } = await createPipe(daemon, github('first'))
  await send(daemon, id, '{"n":1}')
  await daemon.stop()
  await daemon.start()
  t.equal((await send(daemon, id, '{"n":1}', signed('{"n":1}'))).status, 202)
  t.same(await until('the count is read', () => rejectedHooks(daemon, id)), { missing_signature: 1 })
})
