/** A driver in a thread of its own does what it does in the worker: outcome, progress, rate, abort, check. */
import '../buffer/typescript-workers.ts'
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { resolveConfig } from '../../../src/contract/destination.ts'
import { isolatedDrivers } from '../../../src/delivery/isolated-driver.ts'
import {
  type AttemptProgress,
  DeliveryError,
  noProgress,
  type PinServerKey,
  type RejectedRecord,
} from '../../../src/destinations/driver.ts'
import { anyKey, failureOf, makeBatch } from '../../support/batches.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { honestPostgres } from '../../support/rogue/postgresql.ts'
import { honestly, startRogue } from '../../support/rogue/rogue-server.ts'
import { until } from '../../support/until.ts'

const drivers = isolatedDrivers({
  databaseTls: false,
  egress: { allow: [], deny: [], private: 'allow' },
})

function specAt(url: string) {
  return {
    ...{
      destinationId: randomUUID(),
      pipeId: randomUUID(),
      pipeName: 'p',
      columns: [],
      timestampField: 'ts',
    },
    ...resolveConfig('destination_http_endpoint', { url, body_format: 'json_object' }),
  }
}

/** One message of four records, as a view of a larger buffer. */
function batch() {
  const text = '{"n":0}\n{"n":1}\n{"n":2}\n{"n":3}'
  const body = Buffer.from(`before${text}after`).subarray(6, 6 + text.length)
  const message = { seq: 1, pipeId: randomUUID(), msgId: randomUUID(), receivedMs: 0, recordCount: 4, body }
  const range = { identity: randomUUID(), firstSeq: 1, lastSeq: 1, recordOffset: 0 }
  return { ...range, messages: [message], recordCount: 4, byteCount: body.length }
}

t.test(
  'what is stored of a batch, and the error that ended it, come back; the rate is asked for',
  async (t) => {
    const sink = await startHttpSink()
    sink.respondWith((_, index) => (index === 2 ? { status: 429, headers: { 'retry-after': '7' } } : {}))
    const stored: number[] = []
    let asked = 0
    const progress = {
      ...noProgress,
      stored: (records: number) => void stored.push(records),
      beforeRequest: async () => {
        asked += 1
      },
    }
    const driver = drivers.open(specAt(sink.url), anyKey)
    const delivering = driver.deliver(batch(), new AbortController().signal, progress)
    await t.rejects(delivering, {
      class: 'transient',
      code: 'http_429',
      retryAfterMs: 7000,
      storedRecords: 2,
    })
    t.strictSame([stored, asked], [[1, 2], 2])
    t.strictSame(
      sink.records().map(({ n }) => n),
      [0, 1, 2],
    )
    await driver.deliver(batch(), new AbortController().signal, progress)
    t.equal(sink.deliveries.length, 7)
    await sink.stop()
  },
)

t.test(
  'a database server is admitted by the lane, in its own thread, before anything is said to it',
  async (t) => {
    const rogue = await startRogue(honestPostgres, 99, honestly, { host: '127.0.0.2', tls: true })
    t.teardown(() => rogue.stop())
    const config = {
      host: '127.0.0.2',
      port: rogue.port,
      database: 'd',
      username: 'u',
      password: 'p',
      table: 't',
    }
    const spec = { ...specAt('http://x'), ...resolveConfig('destination_database', config) }
    const deliver = (pin: PinServerKey) =>
      drivers.open(spec, pin).deliver(makeBatch([[{ v: 'x' }]]), new AbortController().signal)
    await t.rejects(
      deliver(async () => 'another'),
      { class: 'permanent', code: 'certificate_changed' },
    )
    await t.rejects(
      deliver(() => Promise.reject(new Error('disk full'))),
      { class: 'transient', code: 'pin_not_stored' },
    )
    t.equal(rogue.heard(), '')
    const seen: string[] = []
    await deliver(async (sha256) => {
      seen.push(sha256)
      return sha256
    })
    t.match(seen, [/^[0-9a-f]{64}$/])
    t.not(rogue.heard(), '')
  },
)

t.test('what is rejected is parked by the lane, and what keeps it from that comes back', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  sink.respondWith(({ text }) => (JSON.parse(text).n === 1 ? { status: 422, body: 'no' } : {}))
  const kept: RejectedRecord[] = []
  let failure: Error | null = null
  const progress = {
    ...noProgress,
    stored() {},
    beforeRequest: async () => {},
    async park(rejected: readonly RejectedRecord[]) {
      if (failure !== null) throw failure
      kept.push(...rejected)
    },
  }
  const driver = drivers.open(specAt(sink.url), anyKey)
  const deliver = (given: AttemptProgress) => driver.deliver(batch(), new AbortController().signal, given)
  await deliver(progress)
  t.match(kept, [{ seq: 1, recordIndex: 1, code: 'http_422' }])
  failure = new Error('disk full')
  await t.rejects(deliver(progress), { class: 'transient', code: 'not_set_aside', storedRecords: 1 })
  failure = new DeliveryError('transient', 'no_space', 'The disk is full.')
  await t.rejects(deliver(progress), { code: 'no_space', storedRecords: 1 })
  t.match(await failureOf(deliver({ ...progress, park: null })), {
    fault: 'records',
    rejected: { seq: 1, recordIndex: 1 },
  })
})

t.test('an abort ends the attempt, also one that waits for its turn', async (t) => {
  const sink = await startHttpSink()
  sink.respondWith(() => ({ fault: 'never' }))
  const interrupt = new AbortController()
  const driver = drivers.open(specAt(sink.url), anyKey)
  const attempts = [1, 2, 3].map(() =>
    driver.deliver(batch(), interrupt.signal).then(
      () => 'delivered',
      () => 'ended',
    ),
  )
  await until('two are under way', () => sink.deliveries.length === 2)
  interrupt.abort()
  t.strictSame(await Promise.all(attempts), ['ended', 'ended', 'ended'])
  t.equal(sink.deliveries.length, 2, 'the third never began')
  await sink.stop()
})

t.test('a check runs apart too', async (t) => {
  const sink = await startHttpSink()
  const checks = await drivers.check(specAt(sink.url), new AbortController().signal, null)
  t.ok(checks.length > 0 && checks.every(({ ok }) => ok))
  await sink.stop()
})
