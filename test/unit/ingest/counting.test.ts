import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import type { PipeLimits } from '../../../src/contract/pipe.ts'
import { createQuota } from '../../../src/ingest/admission.ts'
import { UsageCounter } from '../../../src/ingest/usage.ts'

const limits: PipeLimits = {
  pl_ingest_max_records_per_request: 100,
  pl_ingest_max_records_per_second: 10,
  pl_ingest_max_records_per_day: 1000,
  pl_ingest_max_bytes_per_day: 50_000,
  pl_delivery_max_records_per_flush: 1,
  pl_delivery_max_bytes_per_flush: 1,
  pl_delivery_max_seconds_per_flush: 1,
}
const noon = Date.UTC(2026, 5, 1, 12)
const midnight = Date.UTC(2026, 5, 2)

async function rejection(reserved: Promise<unknown>): Promise<ApiError> {
  try {
    await reserved
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('nothing was rejected')
}

t.test('rate: the bucket holds max(rate, records per request) and refills at the rate', async (t) => {
  const quota = createQuota({}, noon)
  const first = await quota.reserve('p', limits, { records: 100, bytes: 10 }, noon)
  t.strictSame(
    first.state,
    { limit: 10, remaining: 0, resetSeconds: 10 },
    'the largest request passes at once',
  )
  const error = await rejection(quota.reserve('p', limits, { records: 25, bytes: 10 }, noon + 1000))
  t.equal(error.code, 'rate_limit_exceeded')
  t.match(error.body(), {
    error: 'rate_limit_exceeded',
    limit: 'pl_ingest_max_records_per_second',
    limit_value: 10,
    current: 90,
    retry_after_seconds: 2,
  })
  t.match(error.headers, {
    'Retry-After': '2',
    'X-RateLimit-Limit': '10',
    'X-RateLimit-Remaining': '10',
    'X-RateLimit-Reset': '9',
  })
  await quota.reserve('p', limits, { records: 25, bytes: 10 }, noon + 2500)
  t.equal(
    (await quota.reserve('other', limits, { records: 1, bytes: 1 }, noon)).state.remaining,
    99,
    'each pipe has its own',
  )
})

t.test('rate: with a rate above the request limit the bucket holds one second', async (t) => {
  const quota = createQuota({}, noon)
  const fast = { ...limits, pl_ingest_max_records_per_second: 500 }
  for (let i = 0; i < 5; i++) await quota.reserve('p', fast, { records: 100, bytes: 1 }, noon)
  t.equal(
    (await rejection(quota.reserve('p', fast, { records: 1, bytes: 1 }, noon))).code,
    'rate_limit_exceeded',
  )
})

t.test('day quotas: records and bytes per UTC day, Retry-After to midnight', async (t) => {
  const quota = createQuota({ p: { records: 990, bytes: 100 }, q: { records: 0, bytes: 49_995 } }, noon)
  await quota.reserve('p', limits, { records: 10, bytes: 1 }, noon)
  const records = await rejection(quota.reserve('p', limits, { records: 1, bytes: 1 }, noon + 5000))
  t.match(records.body(), {
    error: 'daily_quota_exceeded',
    limit: 'pl_ingest_max_records_per_day',
    limit_value: 1000,
    current: 1000,
    retry_after_seconds: 12 * 3600 - 5,
  })
  t.match(records.headers, {
    'Retry-After': '43195',
    'X-RateLimit-Limit': '1000',
    'X-RateLimit-Remaining': '0',
  })
  const bytes = await rejection(quota.reserve('q', limits, { records: 1, bytes: 6 }, noon))
  t.match(bytes.body(), { limit: 'pl_ingest_max_bytes_per_day', limit_value: 50_000, current: 49_995 })
  await quota.reserve('q', limits, { records: 1, bytes: 5 }, noon)
  await quota.reserve('q', { ...limits, pl_ingest_max_bytes_per_day: null }, { records: 1, bytes: 1e9 }, noon)
  await quota.reserve('p', limits, { records: 1, bytes: 1 }, midnight)
})

t.test('limits are all-or-nothing: what one limit rejects takes nothing of the others', async (t) => {
  const quota = createQuota({ p: { records: 995, bytes: 0 } }, noon)
  t.equal(
    (await rejection(quota.reserve('p', limits, { records: 10, bytes: 1 }, noon))).code,
    'daily_quota_exceeded',
  )
  t.equal((await quota.reserve('p', limits, { records: 5, bytes: 1 }, noon)).state.remaining, 95)
})

t.test('what could not be stored is given back, to the day it was taken from', async (t) => {
  const quota = createQuota({}, noon)
  const tight = { ...limits, pl_ingest_max_records_per_day: 100 }
  const taken = await quota.reserve('p', tight, { records: 100, bytes: 10 }, noon)
  t.ok(await rejection(quota.reserve('p', tight, { records: 1, bytes: 1 }, noon)))
  quota.refund(taken)
  const again = await quota.reserve('p', tight, { records: 100, bytes: 10 }, noon)
  await quota.reserve('p', tight, { records: 60, bytes: 1 }, midnight + 60_000)
  quota.refund(again)
  t.equal(
    (await rejection(quota.reserve('p', tight, { records: 41, bytes: 1 }, midnight + 120_000))).code,
    'daily_quota_exceeded',
    'yesterday’s is not given to today',
  )
})

t.test('a clock that goes back adds no tokens', async (t) => {
  const quota = createQuota({}, noon)
  await quota.reserve('p', limits, { records: 100, bytes: 1 }, noon)
  t.equal(
    (await rejection(quota.reserve('p', limits, { records: 100, bytes: 1 }, noon - 86_400_000))).code,
    'rate_limit_exceeded',
  )
  t.equal(
    (await quota.reserve('p', limits, { records: 10, bytes: 1 }, noon - 86_400_000 + 1000)).state.remaining,
    0,
    'it refills from there on',
  )
})

t.test('a clock that was ten years ahead for a while leaves today’s quota as it was', async (t) => {
  const quota = createQuota({}, noon)
  const tight = { ...limits, pl_ingest_max_records_per_day: 20 }
  await quota.reserve('p', tight, { records: 15, bytes: 1 }, noon)
  await quota.reserve('p', tight, { records: 20, bytes: 1 }, noon + 3652 * 86_400_000)
  const error = await rejection(quota.reserve('p', tight, { records: 6, bytes: 1 }, noon + 1000))
  t.match(error.body(), { error: 'daily_quota_exceeded', current: 15 })
  await quota.reserve('p', tight, { records: 5, bytes: 1 }, noon + 3_600_000)
  t.equal(
    (await quota.reserve('p', tight, { records: 20, bytes: 1 }, midnight)).amount.records,
    20,
    'and tomorrow begins at midnight',
  )
})

t.test('day quotas: what was accepted without a limits row counts too', async (t) => {
  const quota = createQuota({}, noon)
  quota.count('p', { records: 6, bytes: 60 }, noon)
  const tight = { ...limits, pl_ingest_max_records_per_day: 6 }
  const error = await rejection(quota.reserve('p', tight, { records: 1, bytes: 1 }, noon + 1000))
  t.match(error.body(), { error: 'daily_quota_exceeded', current: 6 })
  t.equal((await quota.reserve('p', limits, { records: 100, bytes: 1 }, noon)).state.remaining, 0)
  t.ok(await quota.reserve('p', tight, { records: 6, bytes: 1 }, midnight + 60_000), 'a new day')
})

const hour = 3_600_000

t.test('usage: counts by pipe and hour, marks are the running totals as of them', async (t) => {
  const counter = new UsageCounter(new Map([['p', { messages: 7, records: 70, bytes: 700 }]]))
  counter.accepted('p', noon + 1, { messages: 1, records: 2, bytes: 20 })
  counter.accepted('p', noon + 2, { messages: 1, records: 3, bytes: 30 })
  counter.accepted('p', noon + hour, { messages: 1, records: 1, bytes: 10 })
  counter.rejected('q', noon)
  const { counts, marks } = counter.take()
  t.strictSame(counts, [
    { pipeId: 'p', hourMs: noon, requests: 2, records: 5, bytes: 50, rejected: 0, lastIngestMs: noon + 2 },
    {
      pipeId: 'p',
      hourMs: noon + hour,
      requests: 1,
      records: 1,
      bytes: 10,
      rejected: 0,
      lastIngestMs: noon + hour,
    },
    { pipeId: 'q', hourMs: noon, requests: 0, records: 0, bytes: 0, rejected: 1, lastIngestMs: null },
  ])
  t.strictSame(marks, [{ pipeId: 'p', messages: 10, records: 76, bytes: 760 }])
  t.strictSame(counter.take(), { counts: [], marks: [] })
})

t.test('usage: what could not be flushed is counted with what came meanwhile', async (t) => {
  const counter = new UsageCounter(new Map())
  counter.accepted('p', noon, { messages: 1, records: 2, bytes: 20 })
  const lost = counter.take()
  counter.accepted('p', noon + 5, { messages: 1, records: 1, bytes: 10 })
  counter.restore(lost)
  t.strictSame(counter.take(), {
    counts: [
      { pipeId: 'p', hourMs: noon, requests: 2, records: 3, bytes: 30, rejected: 0, lastIngestMs: noon + 5 },
    ],
    marks: [{ pipeId: 'p', messages: 2, records: 3, bytes: 30 }],
  })
})

t.test('usage: deleted pipes are forgotten, others keep what was counted', async (t) => {
  const counter = new UsageCounter(new Map())
  for (const pipeId of ['gone', 'here'])
    counter.accepted(pipeId, noon, { messages: 1, records: 1, bytes: 10 })
  counter.take()
  counter.forget((pipeId) => pipeId === 'here')
  for (const pipeId of ['gone', 'here'])
    counter.accepted(pipeId, noon, { messages: 1, records: 1, bytes: 10 })
  t.strictSame(counter.take().marks, [
    { pipeId: 'gone', messages: 1, records: 1, bytes: 10 },
    { pipeId: 'here', messages: 2, records: 2, bytes: 20 },
  ])
})
