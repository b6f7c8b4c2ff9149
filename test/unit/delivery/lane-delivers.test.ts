import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

t.test('a lane delivers its pipe in stream_seq order, whatever arrives meanwhile', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  const sent: number[] = []
  for (let round = 0; round < 50; round += 1) {
    sent.push(...world.send(1 + (round % 3)))
    await new Promise((resolve) => setImmediate(resolve))
  }
  const lane = await world.untilLane(id, 'everything is delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, sent)
  t.match(lane, {
    pending_messages: 0,
    pending_bytes: 0,
    cursor_seq: sent.at(-1),
    head_seq: sent.at(-1),
    delivered_records: sent.length,
    blocking_msg_id: null,
    last_error: null,
    attempts: 0,
  })
  t.ok(lane.last_delivered_ts)
  await world.close()
})

t.test('one batch in flight; what arrives meanwhile forms the next batch', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  const [first] = world.send(1)
  await until('the first attempt', () => destination.waiting === 1)
  const rest = world.send(5)
  await world.clock.advance(10_000)
  t.equal(destination.attempts.length, 1, 'no second attempt while one is under way')
  destination.release()
  await until('the second attempt', () => destination.waiting === 1)
  destination.release()
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [[first], rest],
  )
  await world.close()
})

t.test('batches are cut at whole messages by records and bytes', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000, 1)
  for (const records of [4, 4, 4, 25, 3]) world.send(1, { records, notify: false })
  world.send(1, { records: 2, recordText: `"${'x'.repeat(600)}"`, notify: false })
  world.send(1, { records: 2 })
  const { id, destination } = await world.addLane()
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [[1, 2], [3], [4], [5], [6], [7]],
    'ten records or 1000 bytes at most; a message over a limit goes alone',
  )
  await world.close()
})

t.test('seconds close a batch that is not full, counted from its oldest message', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(100, 1_000_000, 30)
  const { id, destination } = await world.addLane()
  world.send(2)
  await world.clock.advance(20_000)
  world.send(1)
  await world.clock.advance(9_000)
  t.equal(destination.attempts.length, 0, 'the batch is still open')
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [[1, 2, 3]],
  )
  await world.close()
})

t.test('a full batch does not wait for its seconds', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(3, 1_000_000, 3_600)
  const { id, destination } = await world.addLane()
  world.send(7)
  await world.clock.advance(1_000)
  await world.untilLane(id, 'two batches are delivered', ({ delivered_records }) => delivered_records === 6)
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [
      [1, 2, 3],
      [4, 5, 6],
    ],
  )
  t.match(await world.lane(id), { lane_state: 'flowing', pending_messages: 1 })
  await world.close()
})

t.test('the age of an open batch survives a wall clock that is set back', async (_t) => {
  const world = await LaneWorld.open()
  await world.limit(100, 1_000_000, 30)
  const { id } = await world.addLane()
  world.send(1)
  await world.clock.advance(1_000)
  world.clock.jumpWall(-10 * 365 * 86_400_000)
  await world.clock.advance(31_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.close()
})

t.test('a transient failure sends the same range again under the same identity', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt <= 3 ? transient() : 'store')
  const first = world.send(3)
  await until('the first attempt', () => destination.attempts.length === 1)
  const later = world.send(2)
  const retrying = await world.untilLane(id, 'it failed once', ({ attempts }) => attempts === 1)
  t.match(retrying, {
    lane_state: 'retrying',
    cursor_seq: 0,
    pending_messages: 5,
    last_error: { class: 'transient', code: 'unreachable' },
  })
  t.ok(retrying.blocking_msg_id && retrying.first_failed_ts && retrying.next_attempt_ts)
  await world.clock.advance(10_000)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [first, first, first, first, later],
  )
  t.equal(new Set(destination.attempts.slice(0, 4).map(({ identity }) => identity)).size, 1)
  t.not(destination.attempts[4]!.identity, destination.attempts[0]!.identity)
  t.match(lane, { attempts: 0, first_failed_ts: null, next_attempt_ts: null, last_error: null })
  t.equal(world.events('lane.recovered').length, 1)
  await world.close()
})

t.test('waits double from one second to five minutes', async (t) => {
  const world = await LaneWorld.open()
  world.random = () => 0.999999
  const { id, destination } = await world.addLane()
  destination.react = () => transient()
  world.send(1)
  const waits: number[] = []
  for (let attempts = 1; attempts <= 11; attempts += 1) {
    await world.untilLane(id, `attempt ${attempts}`, (lane) => lane.attempts === attempts)
    const lane = await world.lane(id)
    waits.push(Math.ceil((Date.parse(lane.next_attempt_ts!) - world.clock.now()) / 1000))
    await world.clock.advance(Date.parse(lane.next_attempt_ts!) - world.clock.now())
  }
  t.strictSame(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
  await world.close()
})

t.test('Retry-After is honoured up to an hour', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) =>
    attempt === 1 ? transient('http_429', 600_000) : transient('http_503', 9e9)
  world.send(1)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(599_000)
  t.equal(destination.attempts.length, 1)
  await world.clock.advance(1_000)
  const lane = await world.untilLane(id, 'it failed again', ({ attempts }) => attempts === 2)
  t.equal(Date.parse(lane.next_attempt_ts!) - world.clock.now(), 3_600_000)
  await world.close()
})

t.test('after destination_max_retry_seconds the lane is stalled, never dropped', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ destination_max_retry_seconds: 60 })
  destination.react = () => transient()
  world.send(1)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(59_000)
  t.equal((await world.lane(id)).lane_state, 'retrying')
  await world.clock.advance(600_000)
  const stalled = await world.untilLane(id, 'it is stalled', ({ lane_state }) => lane_state === 'stalled')
  t.equal(stalled.pending_messages, 1)
  t.equal(world.events('lane.stalled').length, 1, 'said once')
  const before = destination.attempts.length
  await world.clock.advance(900_000)
  await until('the next attempt after 900 s', () => destination.attempts.length === before + 1)
  destination.react = () => 'store'
  await world.clock.advance(900_000)
  await world.untilLane(id, 'delivered after all', ({ lane_state }) => lane_state === 'idle')
  await world.close()
})

t.test('a blocked destination keeps its backlog and makes no attempt', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  await world.change(id, { destination_status: 'blocked' })
  t.equal(destination.aborts, 1, 'the attempt under way is aborted')
  world.send(3)
  await world.clock.advance(3_600_000)
  t.equal(destination.attempts.length, 1)
  t.match(await world.lane(id), { lane_state: 'blocked', pending_messages: 5, attempts: 0, last_error: null })
  t.match(await world.service.backlogs([world.pipeId]), {
    [world.pipeId]: { pending_messages: 5, blocked_lanes: 1 },
  })
  t.equal(await world.service.skip(id), false, 'skip answers no_blocking_message')
  t.equal(await world.service.retryNow(id), null)
  destination.react = () => 'store'
  await world.change(id, { destination_status: 'active' })
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 3, 4, 5])
  t.strictSame(destination.attempts[1]!.identity, destination.attempts[0]!.identity, 'the range was kept')
  await world.close()
})

t.test('lanes never wait for each other; one is black-holed, the others go on', async (t) => {
  const world = await LaneWorld.open()
  const stuck = await world.addLane()
  stuck.destination.react = () => 'hang'
  const others = await Promise.all([1, 2, 3].map(() => world.addLane()))
  world.send(20)
  for (const { id, destination } of others) {
    await world.untilLane(id, 'the others deliver', ({ lane_state }) => lane_state === 'idle')
    t.equal(destination.stored.length, 20)
  }
  t.equal(stuck.destination.stored.length, 0)
  t.equal((await world.lane(stuck.id)).pending_messages, 20)
  await world.close()
})

t.test('a changed destination is opened again and tried at once', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient('http_429', 3_600_000)
  world.send(1)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  destination.react = () => 'store'
  await world.change(id, { destination_config: { url: 'http://127.0.0.1:10/' } })
  await world.untilLane(id, 'delivered without waiting', ({ lane_state }) => lane_state === 'idle')
  t.equal(destination.opened, 2)
  t.equal(destination.closed, 1)
  await world.close()
})

t.test('an error that is ours is logged, shown without details and tried again', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? new TypeError('secret detail') : 'store')
  world.send(1)
  const lane = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  t.match(lane.last_error, { class: 'transient', code: 'internal' })
  t.notMatch(lane.last_error!.message, /secret/)
  t.equal(world.events('delivery.internal_error').length, 1)
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.close()
})

t.test('every attempt is one log line', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? permanent('http_422') : 'store')
  world.send(1, { records: 3 })
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(300_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.match(world.events('delivery.attempted'), [
    {
      level: 'info',
      destination_id: id,
      pipe_id: world.pipeId,
      attempt: 1,
      first_seq: 1,
      last_seq: 1,
      records: 3,
    },
    { level: 'debug', attempt: 2, outcome: 'delivered', bytes: 23 },
  ])
  t.match(world.events('delivery.attempted')[0], { outcome: 'permanent', code: 'http_422' })
  t.match(world.events('lane.stuck'), [{ destination_id: id, stream_seq: 1, code: 'http_422' }])
  await world.close()
})

t.test('pipes without lanes report 0, others their slowest saved cursor', async (t) => {
  const world = await LaneWorld.open()
  const empty = await world.addPipe()
  const fast = await world.addLane()
  const slow = await world.addLane()
  slow.destination.react = () => transient()
  world.send(3)
  await world.untilLane(fast.id, 'one lane is done', ({ lane_state }) => lane_state === 'idle')
  await world.clock.advance(5_000)
  const reportOf = (pipeId: string) => world.reports.at(-1)!.find((one) => one.pipeId === pipeId)
  t.equal(reportOf(world.pipeId)!.seq, 0, 'held by the lane that has not delivered')
  slow.destination.react = () => 'store'
  await world.service.retryNow(slow.id)
  await world.untilLane(slow.id, 'both are done', ({ lane_state }) => lane_state === 'idle')
  await until('the cursor is saved', async () => (await world.saved(slow.id)).cursorSeq === 3)
  await world.clock.advance(5_000)
  t.equal(reportOf(world.pipeId)!.seq, 3)
  t.equal(reportOf(empty)!.seq, 0)
  await world.close()
})

t.test('a deleted destination has no lane any more and its attempt is aborted', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(1)
  await until('an attempt is under way', () => destination.waiting === 1)
  await world.metadata.destinations.delete({
    workspaceId: world.workspaceId,
    pipeId: world.pipeId,
    destinationId: id,
  })
  await world.lanes.refresh(world.pipeId)
  t.equal(destination.aborts, 1)
  t.strictSame(await world.service.lanes([id]), {})
  t.equal(await world.service.skip(id), false)
  await world.close()
})
