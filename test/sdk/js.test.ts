/** The JavaScript client in Node.js against the real daemon, over a network and a gateway that fail. */
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startGateway } from '../support/gateway.ts'
import { createClient, makeSdkPipe, observed } from '../support/sdk.ts'
import { numbers, sorted } from '../support/shop.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const host = { host: '127.0.0.1', port: Number(new URL(daemon.dataUrl).port) }
// Most of the time is spent in waits before the next attempt.
t.jobs = 8
const waits = { buffered: true }

const limits = {
  pl_ingest_max_records_per_request: 10_000,
  pl_ingest_max_records_per_second: 10_000,
  pl_ingest_max_records_per_day: 1_000_000,
  pl_delivery_max_records_per_flush: 1_000,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 1,
}

async function openProxy(t: Test) {
  const proxy = await startProxy(host)
  t.teardown(() => proxy.stop())
  return { proxy, url: `http://127.0.0.1:${proxy.port}` }
}

t.test('records arrive in order and once, in few requests', waits, async (t) => {
  const { proxy, url } = await openProxy(t)
  const pipe = await makeSdkPipe(daemon)
  const seen = observed()
  const client = createClient({ ...pipe.options(`${url}/`), ...seen })
  t.ok(numbers(0, 2_300).every((n) => client.send({ n })))
  t.match(client.stats(), { pending: 2_300, stored: 0, dropped: 0 })
  t.equal(await client.flush(), true)
  t.same(client.stats(), { pending: 0, stored: 2_300, dropped: 0 })
  t.equal(await client.close(), 0)
  t.same(
    (await pipe.arrived()).map(({ n }) => n),
    numbers(0, 2_300),
  )
  t.ok(proxy.accepted() <= 2, `over ${proxy.accepted()} connections`)
  t.same([seen.drops, seen.problems], [[], []])
  t.equal(client.send({ n: 1 }), false, 'it is closed')
  await until('the drop is reported', () => seen.drops[0]?.reason === 'closed')
})

t.test('responses that are lost, and connections that are reset: each record once', waits, async (t) => {
  const { proxy, url } = await openProxy(t)
  const pipe = await makeSdkPipe(daemon)
  const seen = observed()
  const client = createClient({ ...pipe.options(url), ...seen, batch: { maxRecords: 40 } })
  proxy.setMode({ kind: 'cut_at_reply', text: '"accepted":true', times: 1 })
  for (const n of numbers(0, 100)) client.send({ n })
  t.equal(await client.flush(), false, 'it is not stored as far as the client knows')
  t.equal((await pipe.arrived()).length, 40, 'although it is')
  t.equal(await client.close(), 0)
  t.same(sorted(await pipe.arrived()), numbers(0, 100))
  t.match(seen.problems, [{ status: 0, error: 'no_response' }])
  t.same(client.stats(), { pending: 0, stored: 100, dropped: 0 })
})

t.test('negative control: without an Idempotency-Key a lost response leaves two copies', waits, async (t) => {
  const { proxy, url } = await openProxy(t)
  const pipe = await makeSdkPipe(daemon)
  proxy.setMode({ kind: 'cut_at_reply', text: '"accepted":true', times: 1 })
  const send = () =>
    fetch(`${url}/v1/ingest/${pipe.pipeId}`, {
      ...{ method: 'POST', body: '[{"n":1}]', headers: { authorization: `Bearer ${pipe.key}` } },
    })
  await t.rejects(send())
  t.equal((await send()).status, 202)
  t.same(sorted(await pipe.arrived()), [1, 1])
})

t.test('a network that goes silent: the request is cut off and repeated', waits, async (t) => {
  const { proxy, url } = await openProxy(t)
  const pipe = await makeSdkPipe(daemon)
  const seen = observed()
  const client = createClient({ ...pipe.options(url), ...seen, timeoutMs: 200 })
  proxy.setMode({ kind: 'black_hole' })
  client.send({ n: 1 })
  t.equal(await client.flush(), false)
  proxy.setMode({ kind: 'pass' })
  proxy.cut()
  t.equal(await client.close(), 0)
  t.same(sorted(await pipe.arrived()), [1])
  t.match(seen.problems, [{ status: 0, error: 'no_response', message: /abort/i }])
  const other = createClient({ ...pipe.options(url), ...seen })
  proxy.setMode({ kind: 'black_hole' })
  for (const n of [2, 3]) other.send({ n })
  const flushed = other.flush()
  await until('a request is in progress', () => proxy.connections() > 0)
  t.equal(await other.close(100), 2, 'close does not wait for the time limit of the request')
  t.equal(await flushed, false)
  t.match(seen.drops, [{ reason: 'closed', numbers: [2, 3] }])
})

for (const status of [503, 429]) {
  t.test(`${status}: the same batch again, not before Retry-After`, waits, async (t) => {
    const gateway = await startGateway(daemon.dataUrl)
    t.teardown(() => gateway.stop())
    const pipe = await makeSdkPipe(daemon)
    const seen = observed()
    const client = createClient({ ...pipe.options(gateway.url), ...seen })
    gateway.respondTo('/v1/ingest', status, 1, { 'retry-after': '1' })
    client.send({ n: status })
    const start = performance.now()
    t.equal(await client.flush(), false)
    t.equal(await client.flush(), false, 'flush does not shorten the wait')
    t.equal(await client.close(), 0)
    t.ok(performance.now() - start >= 1_000, 'after Retry-After')
    t.match(seen.problems, [{ status, error: 'from_the_gateway', message: 'not passed on' }])
    t.ok(seen.problems.every(({ retryMs }) => retryMs >= 1_000 && retryMs <= 2_000))
    t.same(sorted(await pipe.arrived()), [status])
  })
}

t.test(
  '413 and 400: the others of the batch arrive, the rejected record is reported with its reason',
  async (t) => {
    const pipe = await makeSdkPipe(daemon)
    await daemon.api('PUT', `/v1/pipes/${pipe.pipeId}/limits`, {
      ...{ ...limits, pl_ingest_max_records_per_request: 10 },
    })
    const seen = observed()
    const client = createClient({ ...pipe.options(), ...seen })
    let deep: unknown = 1
    for (let level = 0; level < 200; level++) deep = [deep]
    for (const n of numbers(0, 60)) client.send(n === 33 ? { n, deep } : { n })
    t.equal(await client.flush(), true)
    t.same(
      (await pipe.arrived()).map(({ n }) => n),
      numbers(0, 60).filter((n) => n !== 33),
      'in order',
    )
    t.match(seen.drops, [
      {
        reason: 'rejected',
        numbers: [33],
        problem: { status: 400, error: 'invalid_payload', message: /100 levels/ },
      },
    ])
    t.same([seen.problems, client.stats()], [[], { pending: 0, stored: 59, dropped: 1 }])
    t.equal(await client.close(), 0)
  },
)

t.test('401 and 404: nothing is dropped, and the daemon is asked rarely', waits, async (t) => {
  const pipe = await makeSdkPipe(daemon)
  for (const [what, options] of [
    ['unauthorized', { ...pipe.options(), key: 'ppl1_wrong' }],
    ['pipe_not_found', { ...pipe.options(), pipe: '0197b8a0-0000-7000-8000-000000000000' }],
  ] as const) {
    const seen = observed()
    const client = createClient({ ...options, ...seen })
    for (const n of [1, 2]) client.send({ n })
    t.equal(await client.flush(), false)
    t.match(seen.problems, [{ error: what }])
    t.ok(Number(seen.problems[0]?.retryMs) >= 30_000)
    t.same(client.stats(), { pending: 2, stored: 0, dropped: 0 })
    t.equal(await client.close(0), 2, 'two records were not stored')
    t.match(seen.drops, [{ reason: 'closed', numbers: [1, 2] }])
  }
  t.same(await pipe.arrived(), [])
})

t.test('the queue is bounded: the oldest are dropped and counted, the others arrive', waits, async (t) => {
  const { proxy, url } = await openProxy(t)
  const pipe = await makeSdkPipe(daemon)
  const seen = observed()
  proxy.setMode({ kind: 'reset' })
  const client = createClient({
    ...{ ...pipe.options(url), ...seen },
    ...{ batch: { maxRecords: 10 }, queue: { maxRecords: 100, maxBytes: 5_000 } },
  })
  for (const n of numbers(0, 20)) client.send({ n })
  t.equal(await client.flush(), false)
  for (const n of numbers(20, 400)) client.send({ n })
  t.equal(client.send({ text: 'x'.repeat(5_001) }), false, 'a record that is larger than the queue')
  proxy.setMode({ kind: 'pass' })
  t.equal(await client.close(), 0)
  const gone = seen.drops.flatMap((one) => one.numbers.filter((n) => n !== undefined)).map(Number)
  t.ok(seen.drops.every(({ reason }) => reason === 'full'))
  t.ok(gone.length >= 290 && gone.every((n) => n < 310), `${gone.length} of the oldest`)
  const arrived = sorted(await pipe.arrived())
  t.same(
    [...gone, ...arrived].sort((a, b) => a - b),
    numbers(0, 400),
    'each is dropped or arrives',
  )
  t.match(client.stats(), { stored: arrived.length, dropped: gone.length + 1 })
})

t.test('nothing is thrown into the application, and its own errors stop nothing', waits, async (t) => {
  const pipe = await makeSdkPipe(daemon)
  const told: unknown[] = []
  const log = t.capture(console, 'error', (error: unknown) => told.push(error))
  const client = createClient({
    ...pipe.options(),
    onDrop: () => {
      throw new Error('from the application')
    },
  })
  const loop: Record<string, unknown> = {}
  loop.loop = loop
  const noRecords: unknown[] = [1, 'text', null, undefined, [{}], loop, { n: 1n }, () => 1]
  for (const one of noRecords) t.equal(client.send(one as object), false)
  client.send({ n: 1 })
  t.equal(await client.close(), 0)
  t.equal(log().length, noRecords.length)
  t.match(told[0], { message: 'from the application' })
  t.same(await pipe.arrived(), [{ n: 1 }])
  t.throws(() => createClient({ url: 'no url' }), TypeError, 'except for a wrong configuration, at once')
})
