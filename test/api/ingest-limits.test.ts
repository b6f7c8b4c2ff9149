import { createHmac } from 'node:crypto'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon({ env: { PIPECTL_BUFFER_MAX_BYTES: '4MiB' } })
t.teardown(() => daemon.close())

const plenty = {
  pl_ingest_max_records_per_request: 1000,
  pl_ingest_max_records_per_second: 100_000,
  pl_ingest_max_records_per_day: 1_000_000,
  pl_delivery_max_records_per_flush: 1000,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 1,
}
let made = 0
async function makePipe(limits: Record<string, unknown> | null): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: `limits${made++}`, pipe_add_ingest_ts: false })
  if (limits !== null) await daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, { ...plenty, ...limits })
  return pipeId
}
const post = (pipe: string, records: number, headers: Record<string, string> = {}) =>
  daemon.api('POST', `/v1/ingest/${pipe}`, JSON.stringify(Array(records).fill({ a: 1 })), { headers })

t.test('413 batch_too_large: only when a limits row exists', async (t) => {
  t.equal((await post(await makePipe(null), 2000)).status, 202)
  const pipe = await makePipe({ pl_ingest_max_records_per_request: 3 })
  t.equal((await post(pipe, 3)).status, 202)
  const answer = await post(pipe, 4)
  t.same([answer.status, answer.body.error], [413, 'batch_too_large'])
})

t.test('429 rate_limit_exceeded: body and headers of the contract, all-or-nothing', async (t) => {
  const pipe = await makePipe({ pl_ingest_max_records_per_request: 50, pl_ingest_max_records_per_second: 1 })
  const first = await post(pipe, 49)
  t.equal(first.status, 202)
  t.match(first.headers, {
    'x-ratelimit-limit': '1',
    'x-ratelimit-remaining': '1',
    'x-ratelimit-reset': '49',
  })
  const answer = await post(pipe, 50)
  t.same([answer.status, answer.body.error], [429, 'rate_limit_exceeded'])
  const { retry_after_seconds: wait, current, ...rest } = answer.body
  t.match(rest, { limit: 'pl_ingest_max_records_per_second', limit_value: 1 })
  t.ok(Number(wait) > 30 && Number(wait) <= 49)
  t.ok(Number(current) > 0 && Number(current) <= 49)
  t.match(answer.headers, { 'retry-after': String(wait), 'x-ratelimit-limit': '1' })
  t.equal((await post(pipe, 1)).status, 202, 'the refused request took nothing')
})

t.test(
  '429 daily_quota_exceeded: records and bytes, Retry-After to midnight; kept over a restart',
  async (t) => {
    const byRecords = await makePipe({ pl_ingest_max_records_per_day: 5 })
    t.equal((await post(byRecords, 4)).status, 202)
    const answer = await post(byRecords, 2)
    t.same([answer.status, answer.body.error], [429, 'daily_quota_exceeded'])
    t.match(answer.body, { limit: 'pl_ingest_max_records_per_day', limit_value: 5, current: 4 })
    const wait = Number(answer.body.retry_after_seconds)
    t.ok(wait > 0 && wait <= 86_400)
    t.match(answer.headers, {
      'retry-after': String(wait),
      'x-ratelimit-limit': '5',
      'x-ratelimit-remaining': '1',
    })

    const byBytes = await makePipe({ pl_ingest_max_bytes_per_day: 20 })
    t.equal((await post(byBytes, 2)).status, 202, '15 bytes: two records of 7 and the newline between them')
    const full = await post(byBytes, 1)
    t.match(full.body, {
      error: 'daily_quota_exceeded',
      limit: 'pl_ingest_max_bytes_per_day',
      limit_value: 20,
      current: 15,
    })

    // The day may end in between: then the quota is whole again and there is nothing to see.
    const day = new Date().getUTCDate()
    await daemon.kill()
    await daemon.start()
    if (new Date().getUTCDate() === day) {
      t.match(
        (await post(byRecords, 2)).body,
        { error: 'daily_quota_exceeded', current: 4 },
        'also after kill -9',
      )
      t.equal((await post(byRecords, 1)).status, 202)
    }
  },
)

t.test('day sums include what was accepted before there was a limits row', async (t) => {
  const pipe = await makePipe(null)
  t.equal((await post(pipe, 6)).status, 202)
  await daemon.api('PUT', `/v1/pipes/${pipe}/limits`, { ...plenty, pl_ingest_max_records_per_day: 6 })
  const answer = await post(pipe, 1)
  t.match(answer.body, { error: 'daily_quota_exceeded', current: 6 })
})

t.test('a repeated Idempotency-Key takes nothing from the quota', async (t) => {
  const pipe = await makePipe({ pl_ingest_max_records_per_day: 4 })
  const headers = { 'idempotency-key': 'k' }
  const first = await post(pipe, 2, headers)
  for (let i = 0; i < 3; i++) t.same((await post(pipe, 2, headers)).body, first.body)
  t.equal((await post(pipe, 2)).status, 202)
  t.match((await post(pipe, 1)).body, { error: 'daily_quota_exceeded' }, 'the quota is used up')
  t.same((await post(pipe, 2, headers)).body, first.body, 'a repeat is answered before quotas are asked')
})

t.test(
  'an Idempotency-Key with another body: 422 idempotency_key_reused, nothing stored or taken',
  async (t) => {
    const pipe = await makePipe({ pl_ingest_max_records_per_day: 4 })
    const headers = { 'idempotency-key': 'k' }
    const first = await post(pipe, 1, headers)
    t.equal(first.status, 202)
    const reused = await post(pipe, 2, headers)
    t.same([reused.status, reused.body.error], [422, 'idempotency_key_reused'])
    const both = await Promise.all([
      post(pipe, 1, { 'idempotency-key': 'race' }),
      post(pipe, 2, { 'idempotency-key': 'race' }),
    ])
    t.same(both.map(({ status }) => status).sort(), [202, 422], 'also at the same time')
    t.same((await post(pipe, 1, headers)).body, first.body)
  },
)

t.test('usage_by_pipe counts requests, records, stored bytes and rejections', async (t) => {
  const pipe = await makePipe({ pl_ingest_max_records_per_request: 3 })
  await post(pipe, 3)
  await post(pipe, 1)
  await post(pipe, 4)
  await daemon.api('POST', `/v1/ingest/${pipe}`, '{', {})
  const { body } = await daemon.api<{ usage_by_pipe: Record<string, Record<string, unknown>> }>(
    'GET',
    '/v1/pipes',
  )
  t.match(body.usage_by_pipe[pipe], {
    ingest_requests: 2,
    ingest_records: 4,
    ingest_bytes: 3 * 7 + 2 + 7,
    rejected_requests: 2,
    last_ingest_ts: /^\d{4}-/,
  })
})

async function webhooksAreRejected(t: Test): Promise<void> {
  const secret = 'of the provider'
  for (const pipe_source of [{ type: 'github', secrets: [secret] }, { type: 'secret_url' }]) {
    const { body } = await daemon.api('POST', '/v1/pipes', { pipe_name: pipe_source.type, pipe_source })
    const [id, token] = [String(body.pipe_id), body.pipe_source_token]
    const text = JSON.stringify({ pad: 'x'.repeat(20_000) })
    const signature = createHmac('sha256', secret).update(text).digest('hex')
    const headers = { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}` }
    const where = token === undefined ? id : `${id}/${String(token)}`
    const answer = await daemon.api('POST', `/v1/hooks/${where}`, text, { key: null, headers })
    t.match(answer, { status: 503, body: { error: 'buffer_unavailable' } }, pipe_source.type)
  }
}

t.test('503 buffer_unavailable: with msg_id and Retry-After, and the quota is given back', async (t) => {
  const pipe = await makePipe({ pl_ingest_max_records_per_day: 1000 })
  const others = [await makePipe(null), await makePipe(null), await makePipe(null)]
  for (const one of [pipe, ...others])
    await daemon.createDestination(one, { destination_type: 'destination_pull', destination_config: {} })
  const big = JSON.stringify({ pad: 'x'.repeat(400_000) })
  let stored = 0
  const answer = await until('the buffer is full', async () => {
    const given = await daemon.api('POST', `/v1/ingest/${pipe}`, big)
    if (given.status === 202) stored++
    return given.status === 202 ? null : given
  })
  t.same([answer.status, answer.body.error, answer.headers['retry-after']], [503, 'buffer_unavailable', '5'])
  t.match(answer.body, { msg_id: /^[0-9a-f-]{36}$/, details: { reason: /^(over_quota|pipe_share)$/ } })
  // Other pipes have shares of their own and fill what is left; the buffer then rejects whatever comes.
  const ready = await until('the service is not ready', async () => {
    for (const other of others) await daemon.api('POST', `/v1/ingest/${other}`, { pad: 'x'.repeat(20_000) })
    const given = await daemon.api('GET', '/v1/ready', undefined, { key: null })
    return given.status === 200 ? null : given
  })
  t.same([ready.status, ready.body], [503, { status: 'not_ready', reasons: ['buffer_unavailable'] }])
  await daemon.api('PUT', `/v1/pipes/${pipe}/limits`, {
    ...plenty,
    pl_ingest_max_records_per_day: stored + 1,
  })
  await webhooksAreRejected(t)
  const again = await daemon.api('POST', `/v1/ingest/${pipe}`, big)
  t.equal(again.status, 503, 'not 429: what was refused is not counted')
})
