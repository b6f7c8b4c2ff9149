/** `json_object`: one request per record, what is stored of a batch that failed, several requests at once. */
import t, { type Test as TapTest } from 'tap'
import { type Batch, DeliveryError, noProgress } from '../../../src/destinations/driver.ts'
import { httpEndpoint } from '../../../src/destinations/http-endpoint/driver.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { type HttpSink, startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

async function start(t: TapTest): Promise<HttpSink> {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  return sink
}
function open(t: TapTest, url: string, concurrency = 1, config: Record<string, unknown> = {}) {
  const spec = makeSpec('destination_http_endpoint', { url, body_format: 'json_object', ...config })
  const driver = httpEndpoint.open({ ...spec, concurrency }, openSettings, anyKey)
  t.teardown(() => driver.close())
  return driver
}
const failure = (work: Promise<unknown>) =>
  work.then(
    () => t.fail('should have failed'),
    (error: unknown) => (error instanceof DeliveryError ? error : Promise.reject(error)),
  )
const places = (sink: HttpSink) => sink.deliveries.map(({ text }) => JSON.parse(text).n)
const batch = makeBatch([[{ n: 0 }, { n: 1 }], [{ n: 2 }], [{ n: 3 }, { n: 4 }, { n: 5 }]], 7)
const from = (recordOffset: number): Batch => ({ ...batch, recordOffset })

t.test('a failure in the middle says how much is stored, and the next attempt goes on there', async (t) => {
  const sink = await start(t)
  const driver = open(t, sink.url)
  const counted: number[] = []
  const progress = {
    ...noProgress,
    beforeRequest: async () => {},
    stored: (records: number) => counted.push(records),
  }
  sink.respondWith((_, index) => (index === 4 ? { status: 429, headers: { 'retry-after': '1' } } : {}))
  const error = await failure(driver.deliver(batch, never, progress))
  t.match(error, { class: 'transient', code: 'http_429', retryAfterMs: 1000, storedRecords: 4, failedSeq: 9 })
  t.same(counted, [1, 2, 3, 4])
  await driver.deliver(from(4), never)
  t.same(places(sink), [0, 1, 2, 3, 4, 4, 5], 'no record but the failed one is sent twice')
})

t.test('a record keeps its webhook-id, whatever the range it is sent in', async (t) => {
  const sink = await start(t)
  const driver = open(t, sink.url)
  await driver.deliver(batch, never)
  const rest: Batch = { ...batch, identity: 'another', messages: batch.messages.slice(2), firstSeq: 9 }
  await driver.deliver({ ...rest, recordCount: 3, recordOffset: 1 }, never)
  const ids = sink.deliveries.map(({ headers }) => headers['webhook-id'])
  t.equal(new Set(ids.slice(0, 6)).size, 6)
  t.same(ids.slice(6), ids.slice(4, 6))
})

t.test('concurrency: so many requests under way, never more, and each record once', async (t) => {
  const sink = await start(t)
  let underWay = 0
  let most = 0
  sink.respondWith(async () => {
    most = Math.max(most, ++underWay)
    if (most < 3) await until('three are under way', () => most >= 3)
    underWay -= 1
    return {}
  })
  await open(t, sink.url, 3).deliver(batch, never)
  t.equal(most, 3)
  t.same(places(sink).sort(), [0, 1, 2, 3, 4, 5])
})

t.test(
  'several at once: only what is stored without a gap counts, and the first gap is the error',
  async (t) => {
    const sink = await start(t)
    sink.respondWith(async ({ text }) => {
      const { n } = JSON.parse(text)
      if (n === 1) await until('the third is there', () => places(sink).includes(2))
      return { status: n === 1 ? 422 : n === 2 ? 500 : 200 }
    })
    const error = await failure(open(t, sink.url, 3).deliver(batch, never))
    t.match(error, { class: 'permanent', code: 'http_422', storedRecords: 1, failedSeq: 7 })
  },
)

t.test('the gate stands before every request but the first', async (t) => {
  const sink = await start(t)
  let gates = 0
  const progress = { ...noProgress, beforeRequest: async () => void gates++, stored: () => {} }
  await open(t, sink.url, 2).deliver(batch, never, progress)
  t.equal(gates, 5)
})

t.test('stopped in the middle: what is stored is said', async (t) => {
  const sink = await start(t)
  const controller = new AbortController()
  sink.respondWith((_, index) => {
    if (index !== 2) return {}
    controller.abort()
    return { fault: 'never' }
  })
  const error = await failure(open(t, sink.url).deliver(batch, controller.signal))
  t.match(error, { class: 'transient', code: 'aborted', storedRecords: 2 })
})

t.test('no response in time: it may have been stored', async (t) => {
  const sink = await start(t)
  sink.respondWith(() => ({ fault: 'never' }))
  for (const body_format of ['json_object', 'json_array']) {
    const driver = open(t, sink.url, 1, { body_format, timeout_ms: 1000 })
    t.match(await failure(driver.deliver(batch, never)), { code: 'timeout', timedOut: 'unknown' })
  }
})
