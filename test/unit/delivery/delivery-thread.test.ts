import path from 'node:path'
import t from 'tap'
import { resolveConfig } from '../../../src/contract/destination.ts'
import { openDelivery } from '../../../src/delivery/delivery-proxy.ts'
import { openBufferReader } from '../../../src/stores/open-log.ts'
import { openDeliveryStack } from '../../support/delivery-stack.ts'
import { type HttpSink, startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'
import { specAt } from '../buffer/open.ts'

const numbers = (sink: HttpSink) => sink.records().map(({ n }) => Number(n))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

// Opening costs a second or two under test (two threads of TypeScript): the first tests share one.
const stack = await openDeliveryStack(t.testdir())

t.test('the whole way: appended, delivered in order, shown, counted', async (t) => {
  const sink = await startHttpSink()
  const id = await stack.addLane({ destination_config: { url: `${sink.url}/in` } })
  let next = 0
  for (let message = 0; message < 200; message += 1) {
    const records = 1 + (message % 5)
    await stack.append(next, records)
    next += records
  }
  const view = await until('everything is delivered', async () => {
    const lane = (await stack.delivery.lanes([id]))[id]
    return lane?.delivered_records === next && lane.lane_state === 'idle' ? lane : null
  })
  t.strictSame(numbers(sink), upTo(next))
  t.match(view, { pending_messages: 0, cursor_seq: view.head_seq, last_error: null })
  const identities = sink.deliveries.map(({ headers }) => headers['webhook-id'])
  t.equal(new Set(identities).size, identities.length, 'every batch has an identity of its own')
  t.match(await stack.delivery.backlogs([stack.pipeId]), { [stack.pipeId]: { pending_messages: 0 } })
  const { lanes, inFlightBytes } = await stack.delivery.metrics()
  t.match(lanes, [
    { destinationId: id, pipeId: stack.pipeId, attempts: { delivered: sink.deliveries.length } },
  ])
  t.equal(inFlightBytes, 0)
  await until('the roll-up is saved', async () => {
    const usage = await stack.metadata.usage.byPipe(stack.workspaceId, 0)
    return usage[stack.pipeId]?.delivered_records === next
  })
  await stack.metadata.destinations.delete({
    workspaceId: stack.workspaceId,
    pipeId: stack.pipeId,
    destinationId: id,
  })
  await stack.delivery.refresh(stack.pipeId)
  t.strictSame(stack.fatal, [])
  await sink.stop()
})

t.test('pull through the thread: the records arrive as they were sent', async (t) => {
  const id = await stack.addLane({
    destination_type: 'destination_pull',
    destination_config: {},
    startAfterSeq: await stack.buffer.headSeq(),
  })
  const waiting = stack.delivery.pull(id, { waitMs: 30_000, afterSeq: null })
  await stack.append(5, 3)
  const answer = await waiting
  if (answer.kind !== 'message') throw new Error(answer.kind)
  t.same(JSON.parse(Buffer.from(answer.json).toString()).records, [{ n: 5 }, { n: 6 }, { n: 7 }])
  await stack.delivery.pulled({ destinationId: id, pullId: answer.pullId })
  const ending = stack.delivery.pull(id, { waitMs: 30_000, afterSeq: null })
  await stack.delivery.endPulls()
  t.strictSame(await ending, { kind: 'empty' })
})

t.test('a destination is tested without storing anything, and an unreachable one says so', async (t) => {
  const sink = await startHttpSink()
  const spec = {
    destinationId: '3f1c9a52-5d0e-4f5e-9d57-3b1c4c1f0a11',
    pipeId: stack.pipeId,
    pipeName: 'p',
    columns: [],
    timestampField: 'ingest_ts',
  }
  const good = await stack.delivery.test({
    ...spec,
    ...resolveConfig('destination_http_endpoint', { url: sink.url }),
  })
  t.ok(good.length > 0 && good.every(({ ok }) => ok))
  await sink.stop()
  const bad = await stack.delivery.test({
    ...spec,
    ...resolveConfig('destination_http_endpoint', { url: sink.url }),
  })
  t.ok(bad.some(({ ok }) => !ok))
  t.equal(sink.records().length, 0)
})

t.test('who asks after the end is rejected, and an orderly end is not fatal', async (t) => {
  await stack.close()
  await t.rejects(stack.delivery.lanes([]))
  await stack.delivery.close()
  t.strictSame(stack.fatal, [])
})

t.test('a thread that cannot start says why', async (t) => {
  const spec = specAt(t.testdir())
  const opening = openDelivery({
    buffer: spec,
    openReader: (log) => openBufferReader(spec, log),
    metadata: { kind: 'sqlite', file: path.join(t.testdir(), 'missing', 'metadata.db') },
    stored: stack.metadata,
    sealingKey: Buffer.alloc(32),
    driverSettings: { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' } },
    maxInFlightBytes: 1024 * 1024,
    maxParkedBytes: 1024 * 1024,
    log: { level: 'silent', format: 'json' },
    onFatal: (error) => t.fail(`told twice: ${error.message}`),
  })
  await t.rejects(opening, /metadata\.db cannot be opened/)
})

t.test('what retention drops undelivered is counted on the lane: nothing vanishes', async (t) => {
  const sink = await startHttpSink()
  sink.respondWith(() => ({ status: 503 }))
  const stack = await openDeliveryStack(t.testdir(), {
    segmentMaxBytes: 64 * 1024,
    segmentMaxSeconds: 1,
    undeliveredHours: 2 / 3600,
    deliveredHours: 0,
  })
  const id = await stack.addLane({ destination_config: { url: sink.url } })
  const sent = 300
  for (let n = 0; n < sent; n += 1) await stack.append(n)
  const lane = await until('some are dropped', async () => {
    await stack.append(sent)
    const found = (await stack.delivery.lanes([id]))[id]
    return found !== undefined && found.dropped_messages >= sent ? found : null
  })
  t.equal(lane.delivered_records, 0)
  sink.respondWith(() => ({}))
  await stack.delivery.retryNow(id)
  const appended = (await stack.buffer.appended()).get(stack.pipeId)!.messages
  const settled = await until('the rest is delivered', async () => {
    const found = (await stack.delivery.lanes([id]))[id]
    return found?.pending_messages === 0 ? found : null
  })
  t.equal(settled.delivered_records + settled.dropped_messages, appended, 'delivered + dropped = accepted')
  await stack.close()
  await sink.stop()
})
