/** docs/dev/contract.md#progress: whenever a destination could take some of a batch, the lane gets on. */
import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent, timeout, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const oneByOne = { destination_config: { url: 'http://127.0.0.1:9/', body_format: 'json_object' } }

t.test('(a) a database statement that timed out is halved at once, without a pause', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.recordCount > 10 ? timeout('rolled_back') : 'store')
  world.send(100)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, upTo(100), 'in order, nothing twice, and no time has passed')
  t.strictSame(
    destination.attempts.slice(0, 6).map(({ records }) => records),
    [100, 50, 25, 12, 6, 6],
    'the size that worked is kept for the next batch',
  )
  t.match(lane, { attempts: 0, last_error: null, blocking_msg_id: null })
  await world.close()
})

t.test('(a) one message that times out alone is retried with pauses, and is not stuck', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => timeout('rolled_back')
  world.send(4)
  const lane = await world.untilLane(id, 'it waits', ({ next_attempt_ts }) => next_attempt_ts !== null)
  t.strictSame(
    destination.attempts.map(({ records }) => records),
    [4, 2, 1],
  )
  t.match(lane, { lane_state: 'retrying', last_error: { class: 'transient', code: '57014' } })
  t.equal(world.events('lane.stuck').length, 0)
  await world.close()
})

t.test('(b) an attempt that timed out is repeated under its own identity twice, then halved', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.recordCount > 30 ? timeout('unknown') : 'store')
  world.send(100)
  await until('delivered', async () => {
    await world.clock.advance(1_000)
    return (await world.lane(id)).lane_state === 'idle'
  })
  t.strictSame(
    destination.attempts.map(({ records }) => records),
    [100, 100, 100, 50, 50, 50, 25, 25, 25, 25],
  )
  const identities = destination.attempts.map(({ identity }) => identity)
  t.equal(new Set(identities.slice(0, 3)).size, 1)
  t.equal(new Set(identities.slice(3, 6)).size, 1)
  t.equal(new Set(identities).size, 6)
  t.strictSame(destination.stored, upTo(100))
  await world.close()
})

t.test('(b) the watchdog counts too: a driver that hangs gets a smaller batch in the end', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.recordCount > 2 ? 'hang' : 'store')
  world.send(4)
  await until('delivered', async () => {
    await world.clock.advance(5_000)
    return (await world.lane(id)).lane_state === 'idle'
  })
  t.strictSame(
    destination.attempts.map(({ records }) => records),
    [4, 4, 4, 2, 2],
  )
  await world.close()
})

t.test('negative control: what is no timeout never makes a batch smaller', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt <= 6 ? transient('http_503') : 'store')
  world.send(10)
  await until('delivered', async () => {
    await world.clock.advance(5_000)
    return (await world.lane(id)).lane_state === 'idle'
  })
  t.ok(destination.attempts.every(({ records }) => records === 10))
  await world.close()
})

t.test('(c) the size that worked survives a restart and doubles after 8 batches in a row', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(16, 1_000_000, 0)
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.recordCount > 4 ? timeout('rolled_back') : 'store')
  world.send(16 + 8)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ records }) => records),
    [16, 8, 4, 4, 4, 4, 4, 4],
  )
  await until('saved', async () => (await world.saved(id)).sizeSuccesses === 6)
  t.match(await world.saved(id), { sizeLimitRecords: 4, sizeSuccesses: 6 })
  await world.restart()
  destination.attempts.length = 0
  destination.react = () => 'store'
  world.send(8 + 8 * 8 + 32)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ records }) => records),
    [4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16],
  )
  await until('saved', async () => (await world.saved(id)).sizeLimitRecords === null)
  await world.close()
})

t.test('(c) a message larger than the size that worked still goes alone', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.messages.length > 1 ? timeout('rolled_back') : 'store')
  world.send(4, { records: 50 })
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, upTo(4))
  await world.close()
})

t.test('a timeout in the middle of a search for a failing message halves that part', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => {
    if (batch.recordCount > 16 && batch.recordCount < 64) return timeout('rolled_back')
    return batch.messages.some(({ seq }) => seq === 50) ? permanent() : 'store'
  }
  world.send(64)
  await world.untilLane(
    id,
    'it stands at 50',
    (lane) => lane.cursor_seq === 49 && lane.next_attempt_ts !== null,
  )
  t.strictSame(destination.stored, upTo(49), 'in order, nothing twice')
  t.equal((await world.service.blockingMessage(id))!.stream_seq, 50)
  await world.close()
})

t.test(
  '(d) json_object: a 429 in the middle goes on at that record after Retry-After; none is sent twice',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane(oneByOne)
    destination.react = () => 'partly'
    destination.takes = 10
    world.send(4, { records: 8 })
    const first = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    t.equal(destination.records.length, 10)
    t.match(first, { cursor_seq: 1, delivered_records: 8, last_error: { code: 'http_429' } })
    await until('saved', async () => (await world.saved(id)).recordOffset === 2)
    t.match(await world.service.blockingMessage(id), { stream_seq: 2 })
    destination.takes = 10
    await world.clock.advance(999)
    t.equal(destination.attempts.length, 1, 'not before Retry-After')
    await world.clock.advance(1)
    await world.untilLane(id, 'it came to the third', ({ cursor_seq }) => cursor_seq === 2)
    t.equal(destination.attempts[1]!.recordOffset, 2)
    destination.takes = 100
    await world.clock.advance(1_000)
    const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.equal(destination.records.length, 32)
    t.equal(new Set(destination.records).size, 32, 'no record twice')
    t.match(lane, { delivered_records: 32, attempts: 0 })
    await world.close()
  },
)

t.test('(d) what was stored before the process died is not sent again', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(oneByOne)
  destination.react = () => 'partly'
  destination.takes = 5
  world.send(2, { records: 4 })
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await until('saved', async () => (await world.saved(id)).recordOffset === 1)
  await world.restart()
  destination.takes = 100
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.records, ['1:0', '1:1', '1:2', '1:3', '2:0', '2:1', '2:2', '2:3'])
  await world.close()
})

t.test(
  '(d) a record that is rejected for good blocks at its own message; those before are done',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane(oneByOne)
    destination.react = () => 'partly'
    destination.full = permanent('http_422')
    destination.takes = 6
    world.send(3, { records: 4 })
    const lane = await world.untilLane(id, 'it is stuck', ({ next_attempt_ts }) => next_attempt_ts !== null)
    t.match(lane, { cursor_seq: 1, last_error: { class: 'permanent', code: 'http_422' } })
    t.equal((await world.service.blockingMessage(id))!.stream_seq, 2)
    destination.takes = 100
    t.equal(await world.service.skip(id), true)
    await world.untilLane(id, 'the rest is delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.records.slice(6), ['3:0', '3:1', '3:2', '3:3'])
    await world.close()
  },
)

t.test('(e) retry-now, lowered limits and a changed destination cut a failed range again', async (t) => {
  for (const cause of ['retry-now', 'limits', 'destination'] as const) {
    const world = await LaneWorld.open()
    await world.limit(100, 1_000_000, 0)
    const { id, destination } = await world.addLane()
    destination.react = () => transient('http_503', 3_600_000)
    world.send(50)
    await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    world.send(10)
    destination.react = () => 'store'
    if (cause === 'retry-now') await world.service.retryNow(id)
    if (cause === 'limits') await world.limit(20, 1_000_000, 0)
    if (cause === 'destination')
      await world.change(id, { destination_config: { url: 'http://127.0.0.1:10/' } })
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, upTo(60), cause)
    const [standing, recut] = destination.attempts
    t.not(recut!.identity, standing!.identity, `${cause}: another range, another identity`)
    t.equal(recut!.records, cause === 'limits' ? 20 : 60, cause)
    await world.close()
  }
})

t.test('(e) a batch that failed does not wait for its flush time again', async (_t) => {
  const world = await LaneWorld.open()
  await world.limit(100, 1_000_000, 60)
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? transient('http_503', 3_600_000) : 'store')
  world.send(5)
  await world.clock.advance(60_000)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.service.retryNow(id)
  await world.untilLane(id, 'delivered at once', ({ lane_state }) => lane_state === 'idle')
  await world.close()
})

t.test("a destination's own rate: attempts and the requests of one attempt start no faster", async (t) => {
  const world = await LaneWorld.open()
  const single = await world.addLane({ rate: { requests_per_second: 2 } })
  await world.limit(1, 1_000_000, 0)
  world.send(5)
  await world.untilLane(single.id, 'the first', ({ cursor_seq }) => cursor_seq >= 1)
  const startedAt = world.clock.monotonicMs()
  for (const count of [2, 3, 4, 5]) {
    await until(`attempt ${count}`, async () => {
      await world.clock.advance(50)
      return single.destination.attempts.length === count
    })
    t.ok(world.clock.monotonicMs() - startedAt >= (count - 1) * 500, `attempt ${count} is not early`)
  }
  await world.close()

  const records = await LaneWorld.open()
  const { id, destination } = await records.addLane({ ...oneByOne, rate: { requests_per_second: 2 } })
  destination.react = () => 'partly'
  destination.takes = 100
  const begunAt = records.clock.monotonicMs()
  records.send(1, { records: 5 })
  await until('five requests', async () => {
    await records.clock.advance(50)
    return destination.records.length === 5
  })
  t.ok(records.clock.monotonicMs() - begunAt >= 2_000, 'five requests take two seconds')
  await records.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await records.close()
})

t.test(
  'one request per record, slowly: an attempt ends after 5 minutes at most, which is no failure',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane({ ...oneByOne, rate: { requests_per_second: 1 } })
    destination.react = () => 'partly'
    destination.takes = 1_000
    world.send(2, { records: 350 })
    await until('the first attempt is under way', () => destination.attempts.length === 1)
    await world.clock.advance(310_000)
    t.ok(destination.attempts.length >= 2, 'the rest goes in another attempt')
    const lane = (await world.service.lanes([id]))[id]
    t.match(lane, { lane_state: 'flowing', attempts: 0, last_error: null })
    await world.clock.advance(500_000)
    await world.untilLane(id, 'everything is delivered', ({ lane_state }) => lane_state === 'idle')
    t.equal(destination.records.length, 700)
    t.equal(new Set(destination.records).size, 700, 'each once')
    t.equal(world.lanes.budget.reservedBytes, 0)
    await world.close()
  },
)
