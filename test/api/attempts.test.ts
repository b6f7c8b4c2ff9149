/** GET …/destinations/{id}/attempts on the real daemon: what a person finds there, and what nobody may find there. */
import t from 'tap'
import type { AttemptList, DeliveryAttempt } from '../../src/contract/attempts.ts'
import { cliEnv, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, pullDestination, secretMark, unknownId } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const token = `${secretMark}-token`
const flush = { max_records: 100, max_bytes: 1_000_000, max_seconds: 0 }
const endpoint = (name: string, config: Record<string, unknown> = {}) =>
  created(
    api,
    base,
    {
      destination_name: name,
      destination_type: 'destination_http_endpoint',
      destination_config: { url: `${sink.url}/${name}?key=${token}`, ...config },
      flush,
      on_permanent_error: 'park',
    },
    'destination_id',
  )
const list = async (id: string, query = '') =>
  (await api('GET', `${base}/${id}/attempts${query}`)).body as unknown as AttemptList
const untilListed = (id: string, count: number) =>
  until(`${count} attempts`, async () => {
    const { attempts } = await list(id)
    return attempts.length >= count ? attempts : null
  })

let inspectedId = ''
t.test('a delivery and a failure, each with its request and response, without a secret', async (t) => {
  const id = await endpoint('inspected', {
    headers: { 'X-Team': 'blue' },
    secret_headers: { 'X-Token': token },
    auth_header: `Bearer ${token}`,
    signing_secret: `whsec_${Buffer.alloc(24, secretMark).toString('base64')}`,
  })
  sink.respondWith(({ headers }, index) => ({
    ...(index === 0 ? { status: 503 } : { status: 202 }),
    headers: {
      'x-request-id': `request-${index}`,
      'set-cookie': `sid=${secretMark}`,
      'x-echo': String(headers['x-token']),
    },
    body: `you sent ${headers.authorization} and ${'x'.repeat(3_000)}`,
  }))
  inspectedId = id
  await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }])
  const [delivered, failed] = (await untilListed(id, 2)) as [DeliveryAttempt, DeliveryAttempt]
  t.match(failed, { attempt_no: 1, outcome: 'failed', batch_attempt: 1, records: 2, stored_records: 0 })
  t.match(failed, {
    error: { class: 'transient', code: 'http_503' },
    response: { status: 503, request_id: 'request-0' },
  })
  t.match(delivered, {
    attempt_no: 2,
    outcome: 'delivered',
    batch_attempt: 2,
    stored_records: 2,
    error: null,
  })
  t.equal(delivered.batch_id, failed.batch_id)
  t.ok(delivered.duration_ms > 0)
  t.match(delivered.request, {
    method: 'POST',
    url: `${sink.url}/inspected?key=[redacted]`,
    headers: {
      'x-team': 'blue',
      'x-token': '[redacted]',
      authorization: '[redacted]',
      'content-type': 'application/json',
    },
  })
  t.equal(delivered.request?.headers['webhook-signature'], '[redacted]')
  t.match(delivered.request?.headers['webhook-id'], delivered.batch_id)
  t.match(delivered.response, {
    status: 202,
    headers: { 'set-cookie': '[redacted]', 'x-echo': '[redacted]' },
  })
  t.match(delivered.response?.excerpt, /^you sent \[redacted\] and x+…$/)
  t.ok(Buffer.byteLength(delivered.response!.excerpt) <= 1_024)
  sink.respondWith(() => ({}))
})

t.test(
  'of many requests the one that failed is shown; a server that does not respond has none',
  async (t) => {
    const id = await endpoint('one-by-one', { body_format: 'json_object' })
    sink.respondWith(({ path, text }) =>
      path.startsWith('/one') && text.includes('bad') ? { status: 422, body: 'no n' } : {},
    )
    await daemon.ingest(pipeId, [{ n: 1 }, { n: 'bad' }, { n: 3 }])
    const [attempt] = await untilListed(id, 1)
    t.match(
      attempt,
      { outcome: 'delivered', response: { status: 422, excerpt: 'no n' } },
      'the other records are stored',
    )
    await sink.halt()
    await daemon.ingest(pipeId, [{ n: 4 }])
    const attempts = await untilListed(id, 2)
    t.match(attempts[0], {
      outcome: 'failed',
      error: { code: 'ECONNREFUSED' },
      request: { method: 'POST' },
      response: null,
    })
    await sink.listen()
  },
)

t.test('filters and pages', async (t) => {
  const id = await endpoint('paged')
  sink.respondWith(() => ({}))
  for (const count of [1, 2, 3]) {
    await daemon.ingest(pipeId, [{ count }])
    await untilListed(id, count)
  }
  const { attempts, next } = await list(id, '?limit=2')
  t.strictSame([attempts.map(({ attempt_no }) => attempt_no), next], [[3, 2], 2])
  t.match(await list(id, `?before=${next}`), { attempts: [{ attempt_no: 1 }], next: null })
  t.match(await list(id, '?outcome=failed'), { attempts: [], next: null })
  t.match(await list(id, '?since=2999-01-01T00:00:00Z'), { attempts: [] })
  for (const query of ['outcome=aborted', 'since=yesterday', 'limit=0', 'limit=501', 'before=0'])
    t.equal((await api('GET', `${base}/${id}/attempts?${query}`)).status, 400, query)
  t.equal((await api('GET', `${base}/${unknownId}/attempts`)).body.error, 'destination_not_found')
  const pull = await created(api, base, pullDestination, 'destination_id')
  t.match(await list(pull), { attempts: [], next: null })
})

t.test('they outlast a restart, and pipectl shows them', async (t) => {
  await daemon.stop()
  await daemon.start()
  const env = cliEnv(daemon, daemon.dataDir)
  const table = await runCli(['attempts', 'orders/inspected', '-o', 'table'], { env })
  t.match(table.stdout, /NO +BEGAN +TOOK +OUTCOME/)
  t.match(table.stdout, /failed 503[\s\S]*The endpoint responded 503/)
  const failed = await runCli(['attempts', 'orders/inspected', '--failed', '--since', '1h', '-o', 'name'], {
    env,
  })
  // The first, and those of the time when the endpoint was away.
  const { attempts } = await list(inspectedId, '?outcome=failed')
  const numbers = attempts.map(({ attempt_no }) => attempt_no)
  t.equal(failed.stdout, `${numbers.join('\n')}\n`)
  t.equal(numbers.at(-1), 1)
  t.notOk(numbers.includes(2), 'the second delivered')
  const one = await runCli(['attempts', 'orders/inspected', '1', '-o', 'table'], { env })
  for (const part of [
    /request +POST .*\/inspected\?key=\[redacted\]/,
    /> x-token +\[redacted\]/,
    /< x-request-id +request-0/,
    /body +you sent/,
  ])
    t.match(one.stdout, part)
  t.notMatch(one.stdout, secretMark)
  const none = await runCli(['attempts', 'orders/inspected', '999'], { env })
  t.equal(none.code, 3)
  t.match(none.stderr, /has no attempt 999/)
})
