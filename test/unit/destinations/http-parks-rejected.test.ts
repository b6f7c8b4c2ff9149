/** `json_object` while the lane parks what is rejected: one bad record costs one record. */
import t, { type Test as TapTest } from 'tap'
import { noProgress, type RejectedRecord } from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, failureOf, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { type HttpSink, startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const batch = makeBatch([[{ n: 0 }, { n: 1 }], [{ n: 2 }], [{ n: 3 }, { n: 4 }, { n: 5 }]], 7)

async function start(t: TapTest, concurrency = 1, config: Record<string, unknown> = {}) {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const spec = makeSpec('destination_http_endpoint', { url: sink.url, body_format: 'json_object', ...config })
  const driver = openDriver({ ...spec, concurrency }, openSettings, anyKey)
  t.teardown(() => driver.close())
  return { sink, driver }
}
function keeper(keep: (rejected: readonly RejectedRecord[]) => Promise<void> = async () => {}) {
  const calls: RejectedRecord[][] = []
  const counted: number[] = []
  const progress = {
    ...noProgress,
    beforeRequest: async () => {},
    stored: (records: number) => void counted.push(records),
    async park(rejected: readonly RejectedRecord[]) {
      calls.push([...rejected])
      await keep(rejected)
    },
  }
  return { calls, counted, progress }
}
const numbers = (sink: HttpSink) => sink.deliveries.map(({ text }) => JSON.parse(text).n)
function refuse(sink: HttpSink, bad: readonly number[], status = 422) {
  sink.respondWith(({ text }) =>
    bad.includes(JSON.parse(text).n) ? { status, body: `no ${JSON.parse(text).n}` } : {},
  )
}

t.test('rejected records are parked with the endpoint’s words, and the rest is stored', async (t) => {
  for (const status of [400, 409, 413, 415, 422]) {
    const { sink, driver } = await start(t)
    refuse(sink, [1, 5], status)
    const { calls, counted, progress } = keeper()
    await driver.deliver(batch, never, progress)
    t.match(calls.flat(), [
      { seq: 7, recordIndex: 1, code: `http_${status}`, message: /no 1/ },
      { seq: 9, recordIndex: 2, code: `http_${status}`, message: /no 5/ },
    ])
    t.strictSame(numbers(sink), [0, 1, 2, 3, 4, 5], 'each is sent once')
    t.equal(Math.max(...counted), 6)
  }
})

t.test('without it the batch ends at the first one, which is named', async (t) => {
  const { sink, driver } = await start(t)
  refuse(sink, [1])
  t.match(await failureOf(driver.deliver(batch, never)), {
    ...{ class: 'permanent', fault: 'records', failedSeq: 7, storedRecords: 1 },
    rejected: { seq: 7, recordIndex: 1, code: 'http_422' },
  })
  t.strictSame(numbers(sink), [0, 1])
})

t.test('what is wrong with the endpoint itself is parked by nobody', async (t) => {
  for (const status of [401, 403, 404, 405, 500]) {
    const { sink, driver } = await start(t)
    refuse(sink, [1], status)
    const { calls, progress } = keeper()
    t.match(await failureOf(driver.deliver(batch, never, progress)), {
      ...{ code: `http_${status}`, storedRecords: 1, rejected: undefined },
      fault: status === 500 ? undefined : 'destination',
    })
    t.strictSame(calls, [])
  }
})

t.test('a refused record counts as stored when it is kept, not before', async (t) => {
  const { sink, driver } = await start(t)
  refuse(sink, [1])
  let release = () => {}
  const kept = new Promise<void>((resolve) => {
    release = resolve
  })
  const { counted, progress } = keeper(() => kept)
  const delivering = driver.deliver(batch, never, progress)
  await until('all are sent', () => sink.deliveries.length === 6)
  t.equal(Math.max(...counted), 1, 'those behind it are stored, and it is not')
  release()
  await delivering
  t.equal(Math.max(...counted), 6)
})

t.test('when it cannot be kept, it is sent again and nothing before it is', async (t) => {
  const { sink, driver } = await start(t)
  refuse(sink, [1])
  const { progress } = keeper(() => Promise.reject(new Error('disk full')))
  const error = await failureOf(driver.deliver(batch, never, progress))
  t.match(error, { class: 'transient', code: 'not_set_aside', storedRecords: 1 })
})

t.test('all of many are bad, several requests at once: each is kept once, some at a time', async (t) => {
  const { sink, driver } = await start(t, 8)
  const many = makeBatch([Array.from({ length: 2_500 }, (_, n) => ({ n }))])
  sink.respondWith(() => ({ status: 400 }))
  const { calls, counted, progress } = keeper()
  await driver.deliver(many, never, progress)
  t.ok(calls.every((call) => call.length > 0 && call.length <= 1_000))
  t.equal(new Set(calls.flat().map(({ recordIndex }) => recordIndex)).size, 2_500)
  t.equal(calls.flat().length, 2_500)
  t.equal(Math.max(...counted), 2_500)
})

t.test(
  'an endpoint that takes whole batches tells no records apart: a single message is named',
  async (t) => {
    for (const body_format of ['ndjson', 'json_array']) {
      const { sink, driver } = await start(t, 1, { body_format })
      sink.respondWith(() => ({ status: 422, body: 'no' }))
      const { calls, progress } = keeper()
      t.match(await failureOf(driver.deliver(batch, never, progress)), {
        fault: 'records',
        rejected: undefined,
      })
      t.match(await failureOf(driver.deliver(makeBatch([[{ n: 1 }, { n: 2 }]], 9), never, progress)), {
        rejected: { seq: 9, recordIndex: null, code: 'http_422' },
      })
      t.strictSame(calls, [], 'the lane parks it')
    }
  },
)
