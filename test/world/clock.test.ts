import t, { type Test } from 'tap'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type FakeClock, fakeClock } from '../support/fake-clock.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { balance, httpDestination, openSender, type Sender } from './sender.ts'

// Each test has a daemon of its own and mostly waits. (Options are written to by tap: none are shared.)
t.jobs = 4

const day = 86_400
const jumps: [string, number][] = [
  ['an hour forward', 3600],
  ['an hour back', -3600],
  ['a day forward', day],
  ['a day back', -day],
  ['ten years forward', 3652 * day],
  ['ten years back', -3652 * day],
]

/** The daemon's clock, in seconds from the true time. */
async function clockOf(daemon: TestDaemon): Promise<number> {
  const answer = await daemon.api<{ timestamp: string }>('GET', '/v1/health', undefined, { key: null })
  return (Date.parse(answer.body.timestamp) - Date.now()) / 1000
}

async function jump(daemon: TestDaemon, clock: FakeClock, seconds: number): Promise<void> {
  clock.set(seconds)
  await until('the daemon sees the new time', async () => Math.abs((await clockOf(daemon)) - seconds) < 60)
}

const limits = {
  pl_ingest_max_records_per_request: 100,
  pl_ingest_max_records_per_second: 1000,
  pl_ingest_max_records_per_day: 100_000,
  pl_delivery_max_records_per_flush: 1000,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 1,
}

async function openWorld(t: Test, env: Record<string, string> = {}) {
  const clock = fakeClock(t)
  const daemon = await startDaemon({
    // Segments are sealed each second, so that there are some for retention to judge.
    env: { ...clock.env, PIPECTL_BUFFER_SEGMENT_MAX_SECONDS: '1', ...env },
  })
  t.teardown(() => daemon.close())
  const [healthy, failing] = [await startHttpSink(), await startHttpSink()]
  t.teardown(() => Promise.all([healthy.stop(), failing.stop()]))
  const pipeId = await daemon.createPipe({ pipe_name: 'clock' })
  await daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, limits)
  const healthyId = await daemon.createDestination(pipeId, httpDestination(healthy.url))
  const failingId = await daemon.createDestination(pipeId, httpDestination(failing.url))
  const blockedId = await daemon.createDestination(pipeId, httpDestination(healthy.url))
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const setStatus = (destination_status: string) =>
    daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${blockedId}/status`, { destination_status })
  await setStatus('blocked')
  const sender = openSender(daemon, pipeId)
  return {
    clock,
    daemon,
    healthy,
    failing,
    pipeId,
    healthyId,
    failingId,
    blockedId,
    pullId,
    setStatus,
    sender,
  }
}

t.test('a wall clock that jumps while the daemon runs', { buffered: true }, async (t) => {
  const world = await openWorld(t)
  const { clock, daemon, pipeId, sender, healthyId, failingId, blockedId, failing } = world
  await sender.send(10)
  for (const [name, seconds] of jumps) {
    failing.respondWith(() => ({ status: 503 }))
    await sender.send(5)
    await until(
      'the failing lane waits for its next attempt',
      async () => Number((await daemon.lane(pipeId, failingId)).attempts) >= 1,
    )
    await jump(daemon, clock, seconds)
    await sender.send(5)
    failing.respondWith(() => ({}))
    await drained(daemon, pipeId, healthyId)
    await drained(daemon, pipeId, failingId)
    t.pass(`${name}: a healthy lane and one that was waiting go on`)
    const pulled = await daemon.api('GET', `/v1/pull/${world.pullId}?wait_ms=1000&after_seq=0`)
    t.equal(pulled.status, 200, `${name}: pull answers`)
    await jump(daemon, clock, 0)
    await sender.send(5)
    await drained(daemon, pipeId, healthyId)
    t.pass(`${name} and back: lanes go on`)
  }
  await untilRetentionHasLooked(daemon, sender)
  const waiting = await daemon.lane(pipeId, blockedId)
  t.match(waiting, { dropped_messages: 0, delivered_records: 0 })
  t.equal(balance(waiting, sender).accounted, sender.accepted.size, 'the blocked lane has kept everything')
  await world.setStatus('active')
  for (const id of [blockedId, healthyId, failingId]) {
    const lane = await drained(daemon, pipeId, id)
    t.match(lane, { skipped_messages: 0, dropped_messages: 0 })
    t.equal(Number(lane.delivered_records), sender.accepted.size)
  }
  const all = await readAll(daemon, world.pullId)
  const arrived = failing.records().map((record) => Number(record.n))
  t.match(audit(sender, arrived, all.numbers), { missing: [], outOfOrder: [], unknown: [] })
  t.equal(new Set(all.messages).size, sender.messages.size, 'every msg_id is there, once')
  t.same(daemon.noise, [])
})

t.test('a daemon that is started with a wrong clock', { buffered: true }, async (t) => {
  const world = await openWorld(t)
  const { clock, daemon, pipeId, sender, healthyId, failingId, blockedId, failing } = world
  failing.respondWith(() => ({ status: 503, headers: { 'retry-after': '30' } }))
  await sender.send(10)
  for (const [name, seconds] of jumps.slice(4)) {
    await until(
      'the failing lane has failed',
      async () => Number((await daemon.lane(pipeId, failingId)).attempts) >= 1,
    )
    await daemon.stop()
    clock.set(seconds)
    await daemon.start()
    t.ok(Math.abs((await clockOf(daemon)) - seconds) < 60, `${name}: the daemon has the wrong time`)
    await sender.send(5)
    await drained(daemon, pipeId, healthyId)
    await untilRetentionHasLooked(daemon, sender)
    const waiting = await daemon.lane(pipeId, blockedId)
    t.equal(waiting.dropped_messages, 0, `${name}: nothing is dropped`)
    t.equal(balance(waiting, sender).accounted, sender.accepted.size)
  }
  failing.respondWith(() => ({}))
  // It would try again by itself within 60 s, whatever time was saved.
  await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${failingId}/retry-now`)
  await drained(daemon, pipeId, failingId)
  await world.setStatus('active')
  await drained(daemon, pipeId, blockedId)
  const all = await readAll(daemon, world.pullId)
  const arrived = failing.records().map((record) => Number(record.n))
  t.match(audit(sender, arrived, all.numbers), { missing: [], outOfOrder: [], unknown: [] })
})

t.test(
  'a record counts for the day that the clock says; a wrong day is over when the clock is right',
  { buffered: true },
  async (t) => {
    const world = await openWorld(t)
    const { clock, daemon, pipeId } = world
    // Noon of today: the test must not run over a real midnight.
    const noon = day / 2 - (Math.floor(Date.now() / 1000) % day)
    const perDay = async (max: number) =>
      daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, { ...limits, pl_ingest_max_records_per_day: max })
    const one = () => daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 0 })
    await jump(daemon, clock, noon)
    await perDay(2)
    t.equal((await one()).status, 202)
    await jump(daemon, clock, noon + 3652 * day)
    for (const status of [202, 202, 429]) t.equal((await one()).status, status, 'another day: another quota')
    await jump(daemon, clock, noon)
    t.equal((await one()).status, 202, 'back: today goes on where it was')
    const refused = await one()
    t.match(refused, { status: 429, body: { error: 'daily_quota_exceeded' } }, 'and its quota still holds')
    t.ok(Number(refused.body.retry_after_seconds) <= day, 'until midnight at the latest')
    await jump(daemon, clock, noon + day)
    t.equal((await one()).status, 202, 'tomorrow is a new day, although one in ten years has been')
    await jump(daemon, clock, noon)
    await daemon.stop()
    await daemon.start()
    t.match(await one(), { status: 429 }, 'after a restart the quota still holds')
    await perDay(3)
    t.equal((await one()).status, 202, 'and what was counted on other days does not count for today')
    t.equal((await one()).status, 429)
  },
)

t.test(
  'negative control: retention that does go by age drops, and the lane says so',
  { buffered: true },
  async (t) => {
    const seconds = String(2 / 3600)
    const world = await openWorld(t, { PIPECTL_BUFFER_UNDELIVERED_HOURS: seconds })
    const { daemon, pipeId, sender, blockedId } = world
    await sender.send(10)
    const lane = await until(
      'messages are dropped',
      async () => {
        const now = await daemon.lane(pipeId, blockedId)
        return Number(now.dropped_messages) > 0 ? now : null
      },
      { timeoutMs: 60_000 },
    )
    t.equal(balance(lane, sender).accounted, sender.accepted.size, 'dropped messages are counted')
  },
)

/** A segment is sealed in the same step as retention looks, and one with a message in it is sealed each second. */
async function untilRetentionHasLooked(daemon: TestDaemon, sender: Sender): Promise<void> {
  const segments = async () => {
    const text = await (await fetch(daemon.metricsUrl)).text()
    return Number(/^pipectl_buffer_segments (\d+)/m.exec(text)?.[1])
  }
  const before = await segments()
  await sender.send(1)
  await until('another segment is sealed', async () => (await segments()) > before)
}
