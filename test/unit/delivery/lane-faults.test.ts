import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const day = 86_400_000

t.test(
  'the watchdog ends an attempt of a driver that hangs, and the lane goes on with a new one',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane({
      destination_config: { url: 'http://127.0.0.1:9/', timeout_ms: 5_000 },
    })
    destination.react = (_, attempt) => (attempt === 1 ? 'hang' : 'store')
    world.send(2)
    await until('the attempt', () => destination.attempts.length === 1)
    await world.clock.advance(6_000)
    t.equal(destination.aborts, 0, 'not before its own deadline and 2 s')
    await world.clock.advance(1_000)
    t.equal(destination.aborts, 1, 'told to stop')
    await world.clock.advance(2_000)
    const lane = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    t.match(lane.last_error, { class: 'transient', code: 'attempt_timeout' })
    await world.clock.advance(1_000)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.equal(destination.opened, 2, 'by a new driver')
    t.equal(destination.closed, 1)
    t.equal(destination.attempts[0]!.identity, destination.attempts[1]!.identity)
    await world.close()
  },
)

t.test('a driver that minds being aborted is kept', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
  world.send(1)
  await until('the attempt', () => destination.waiting === 1)
  await world.clock.advance(17_000)
  const lane = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  t.equal(lane.last_error?.code, 'attempt_timeout')
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(destination.opened, 1)
  await world.close()
})

t.test('a lost wake-up delays a lane by no more than five seconds', async (t) => {
  for (const looks of [true, false]) {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    const [first] = world.send(1)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    // It wakes once more to close its connections.
    await world.clock.advance(70_000)
    // The negative control: without the look into the buffer nothing else wakes the lane.
    if (!looks) world.buffer.heads = async () => null
    const [second] = world.send(1, { notify: false })
    await world.clock.advance(looks ? 5_000 : 600_000)
    if (looks) await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, looks ? [first, second] : [first])
    await world.close()
  }
})

t.test(
  'a wake-up that comes before the message can be seen is repaired, though nothing else arrives',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    const [first] = world.send(1)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    world.buffer.visibleSeq = first!
    const [second] = world.send(1)
    // The first look finds the head that the lane does not see yet; for the second one nothing is newer.
    await world.clock.advance(5_000)
    t.strictSame(destination.stored, [first])
    world.buffer.visibleSeq = Number.POSITIVE_INFINITY
    await world.clock.advance(5_000)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, [first, second])
    await world.close()
  },
)

t.test('a waiting pull is woken for a message that it was not notified of', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  const pulled = world.service.pull(id, { waitMs: 60_000, afterSeq: null })
  await until('it has looked', () => world.buffer.reads > 0)
  world.send(1, { notify: false })
  await world.clock.advance(5_000)
  t.match(await pulled, { kind: 'message' })
  await world.close()
})

t.test('lanes at rest ask nothing of the buffer', async (t) => {
  const world = await LaneWorld.open()
  const lanes = [await world.addLane(), await world.addLane(), await world.addLane()]
  world.send(1)
  for (const { id } of lanes)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.clock.advance(120_000)
  const { backlogs, reads } = world.buffer
  await world.clock.advance(600_000)
  t.strictSame([world.buffer.backlogs, world.buffer.reads], [backlogs, reads])
  await world.close()
})

t.test(
  'a lane that is blocked, failing or gathering asks nothing of the buffer before its time',
  async (t) => {
    const world = await LaneWorld.open()
    await world.limit(10, 1_000_000, 3_600)
    const gathering = await world.addLane()
    const pipeId = await world.addPipe()
    const [blocked, unreachable, stuck] = [
      await world.addLane({}, pipeId),
      await world.addLane({}, pipeId),
      await world.addLane({}, pipeId),
    ]
    unreachable.destination.react = () => transient('http_503', 3_000_000)
    stuck.destination.react = () => permanent()
    await world.change(blocked.id, { destination_status: 'blocked' }, pipeId)
    world.send(1)
    world.send(1, { pipeId })
    for (const { id } of [unreachable, stuck])
      await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    // Connections that are idle are closed first.
    await world.clock.advance(120_000)
    let looks = 0
    const earliest = world.buffer.earliest.bind(world.buffer)
    world.buffer.earliest = (...asked) => {
      looks += 1
      return earliest(...asked)
    }
    const asked = () => [world.buffer.backlogs, world.buffer.reads, looks]
    const before = asked()
    await world.clock.advance(60_000)
    t.strictSame(asked(), before)
    await world.clock.advance(300_000)
    t.ok(looks > 0, 'control: the message that was rejected is tried again')
    t.equal(stuck.destination.attempts.length, 2)
    t.equal(unreachable.destination.attempts.length, 1)
    world.send(10)
    await world.clock.advance(1_000)
    await world.untilLane(gathering.id, 'delivered', ({ lane_state }) => lane_state !== 'retrying')
    await until('its batch is full', () => gathering.destination.attempts.length === 1)
    await world.change(blocked.id, { destination_status: 'active' }, pipeId)
    await world.untilLane(blocked.id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await world.close()
  },
)

for (const [name, jumpMs] of [
  ['an hour forward', 3_600_000],
  ['an hour back', -3_600_000],
  ['a day forward', day],
  ['a day back', -day],
  ['ten years forward', 3_650 * day],
  ['ten years back', -3_650 * day],
] as const) {
  t.test(`a wall clock that jumps ${name} delays no lane over 60 s and drops nothing`, async (t) => {
    const world = await LaneWorld.open()
    const failing = await world.addLane()
    const restarted = await world.addLane()
    failing.destination.react = () => transient()
    restarted.destination.react = () => permanent()
    world.send(1)
    for (const { id } of [failing, restarted]) {
      await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    }
    world.clock.jumpWall(jumpMs)
    failing.destination.react = () => 'store'
    await world.clock.advance(60_000)
    await world.untilLane(failing.id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    world.send(1)
    await world.untilLane(failing.id, 'and the next', ({ cursor_seq }) => cursor_seq === 2)

    await until('saved', async () => (await world.saved(restarted.id)).attempts > 0)
    await until('saved', async () => (await world.saved(failing.id)).cursorSeq === 2)
    world.clock.jumpWall(jumpMs)
    restarted.destination.react = () => 'store'
    await world.restart()
    await world.clock.advance(60_000)
    const lane = await world.untilLane(restarted.id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(restarted.destination.stored, [1, 2])
    t.equal(lane.dropped_messages, 0)
    t.strictSame(failing.destination.stored, [1, 2])
    await world.close()
  })
}

t.test('messages dropped by age before they were delivered are counted and logged', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient('http_503', 600_000)
  world.send(5)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  world.drop(3)
  const lane = await world.untilLane(id, 'they are counted', ({ dropped_messages }) => dropped_messages === 3)
  // The next message is tried at once and may have failed already: only the count and the position are settled.
  t.match(lane, { pending_messages: 2, cursor_seq: 3 })
  t.match(world.events('lane.messages_dropped'), [
    { destination_id: id, pipe_id: world.pipeId, messages: 3, reason: 'retention' },
  ])
  destination.react = () => 'store'
  await world.service.retryNow(id)
  await world.clock.advance(600_000)
  await world.untilLane(id, 'the rest is delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [4, 5])
  await world.close()
})

t.test('a lane whose destination is blocked counts what retention drops, too', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane()
  await world.change(id, { destination_status: 'blocked' })
  world.send(4)
  world.drop(4)
  await world.untilLane(id, 'counted', ({ dropped_messages }) => dropped_messages === 4)
  t.match(await world.lane(id), { lane_state: 'blocked', pending_messages: 0 })
  await world.close()
})

t.test('what retention drops between the plan and the read is counted, not passed over', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  await world.untilLane(id, 'idle', ({ lane_state }) => lane_state === 'idle')
  world.buffer.beforeRead = () => world.buffer.drop(world.pipeId, 2)
  world.send(4)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(lane.dropped_messages, 2)
  t.strictSame(destination.stored, [3, 4])
  await world.close()
})

t.test('negative control: what was delivered before retention took it is not counted', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane()
  world.send(4)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  world.drop(4)
  await world.clock.advance(10_000)
  t.equal((await world.lane(id)).dropped_messages, 0)
  t.equal(world.events('lane.messages_dropped').length, 0)
  await world.close()
})

t.test('a damaged message is never delivered, is counted as dropped, and the lane goes on', async (t) => {
  const world = await LaneWorld.open()
  world.send(6)
  for (const seq of [1, 4, 6]) world.buffer.damage(seq)
  const { id, destination } = await world.addLane()
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [2, 3, 5])
  t.match(lane, { dropped_messages: 3, delivered_records: 3, pending_messages: 0, pending_bytes: 0 })
  t.match(
    world.events('lane.messages_lost'),
    [1, 4, 6].map((seq) => ({ messages: 1, reason: 'damaged', first_seq: seq, last_seq: seq })),
  )
  await world.close()
})

for (const [what, first, last] of [
  ['at the beginning', 1, 2],
  ['in the middle', 3, 5],
  ['at the end', 7, 8],
] as const) {
  t.test(`messages that the disk lost ${what} cost themselves alone, and are told`, async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    await world.change(id, { destination_status: 'blocked' })
    const seqs = world.send(8)
    world.buffer.lose(first, last)
    await world.change(id, { destination_status: 'active' })
    const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(
      destination.stored,
      seqs.filter((seq) => seq < first || seq > last),
    )
    const messages = last - first + 1
    t.match(lane, { dropped_messages: messages, pending_messages: 0, cursor_seq: 8 })
    t.match(world.events('lane.messages_lost'), [
      { destination_id: id, messages, reason: 'damaged', first_seq: first, last_seq: last },
    ])
    await world.restart(0)
    world.send(1)
    await world.untilLane(id, 'goes on', ({ cursor_seq, pending_messages }) => {
      return cursor_seq === 9 && pending_messages === 0
    })
    t.equal((await world.lane(id)).dropped_messages, messages, 'counted once')
    await world.service.rewind(id, { to: 'earliest' })
    await world.untilLane(id, 'all of it again', ({ cursor_seq }) => cursor_seq === 9)
    t.equal(destination.stored.length, 2 * (9 - messages), 'what lies before the loss is within reach')
    await world.close()
  })
}

t.test('a fixed range that the disk lost is given up for what follows it', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient('http_503', 600_000)
  world.send(3)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  world.send(2)
  world.buffer.lose(1, 3)
  destination.react = () => 'store'
  await world.restart()
  await world.service.retryNow(id)
  await world.clock.advance(600_000)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [4, 5])
  t.match(lane, { dropped_messages: 3, blocking_msg_id: null, attempts: 0 })
  await world.close()
})

t.test(
  'a message found damaged between two attempts makes another batch, under another identity',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    destination.react = (_, attempt) => (attempt === 1 ? transient() : 'store')
    world.send(4)
    await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    world.buffer.damage(3)
    await world.clock.advance(1_000)
    const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(
      destination.attempts.map(({ seqs }) => seqs),
      [[1, 2, 3, 4], [1, 2], [4]],
    )
    t.not(destination.attempts[1]!.identity, destination.attempts[0]!.identity)
    t.equal(lane.dropped_messages, 1)
    await world.close()
  },
)

t.test('memory of all batches under way is bounded and shared between lanes', async (t) => {
  const world = await LaneWorld.open()
  world.maxInFlightBytes = 1024 * 1024
  await world.restart()
  const recordText = `"${'x'.repeat(50_000)}"`
  world.send(40, { recordText })
  const stuck = await Promise.all(
    [1, 2, 3].map(() => world.addLane({ destination_status: undefined } as object)),
  )
  for (const { destination } of stuck) destination.react = () => 'slow'
  await until('all stuck lanes hold a batch', () =>
    stuck.every(({ destination }) => destination.waiting === 1),
  )
  t.ok(
    world.lanes.budget.reservedBytes <= world.maxInFlightBytes,
    `${world.lanes.budget.reservedBytes} bytes`,
  )
  const good = await world.addLane()
  await world.untilLane(good.id, 'another lane gets its share', ({ lane_state }) => lane_state === 'idle')
  t.equal(good.destination.stored.length, 40)
  t.ok(world.lanes.budget.reservedBytes <= world.maxInFlightBytes)
  await world.close()
})

t.test(
  'a driver that nothing was sent over for a minute is closed, and opened again when needed',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    world.send(1)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await world.clock.advance(70_000)
    await until('closed', () => destination.closed === 1)
    world.send(1)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.equal(destination.opened, 2)
    await world.close()
  },
)
