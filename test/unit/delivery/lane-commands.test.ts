import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { refusing, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

t.test('skip and retry-now with nothing blocking answer no_blocking_message', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  t.equal(await world.service.skip(id), false)
  t.equal(await world.service.retryNow(id), null)
  t.equal(await world.service.blockingMessage(id), null)
  destination.react = () => 'slow'
  world.send(1)
  await until('an attempt is under way', () => destination.waiting === 1)
  t.equal(await world.service.skip(id), false, 'nothing has failed yet')
  t.equal(destination.aborts, 0, 'and the attempt is left alone')
  t.equal(await world.service.skip('00000000-0000-4000-8000-000000000000'), false, 'no such lane')
  await world.close()
})

t.test('skip moves past the blocking message alone', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient()
  world.send(3, { records: 2 })
  const { blocking_msg_id } = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  t.match(await world.service.blockingMessage(id), {
    msg_id: blocking_msg_id,
    stream_seq: 1,
    records_count: 2,
    recordTexts: ['{"a":1}', '{"a":1}'],
    truncated: false,
  })
  destination.react = () => 'store'
  t.equal(await world.service.skip(id), true)
  const lane = await world.untilLane(id, 'the rest is delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [2, 3])
  t.match(lane, { skipped_messages: 1, delivered_records: 4, last_error: null })
  t.equal((await world.saved(id)).skippedMessages, 1, 'and it is durable')
  await world.close()
})

t.test('retry-now tries the blocking message at once', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient('http_503', 3_600_000)
  world.send(2)
  const { blocking_msg_id } = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  t.equal(await world.service.retryNow(id), blocking_msg_id)
  await world.untilLane(id, 'it was tried again', ({ attempts }) => attempts === 2)
  destination.react = () => 'store'
  t.equal(await world.service.retryNow(id), blocking_msg_id)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(await world.service.retryNow(id), null)
  await world.close()
})

t.test('skip while an attempt is under way settles it first: what was stored is not skipped', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? transient() : 'slow')
  world.send(2)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(1_000)
  await until('the second attempt', () => destination.waiting === 1)
  // The destination answers just before it would learn of the abort.
  destination.release()
  t.equal(await world.service.skip(id), false)
  t.strictSame(destination.stored, [1, 2])
  t.equal((await world.lane(id)).skipped_messages, 0)

  destination.react = (_, attempt) => (attempt === 3 ? transient() : 'slow')
  world.send(2)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(1_000)
  await until('another attempt', () => destination.waiting === 1)
  t.equal(await world.service.skip(id), true, 'negative control: aborted, so it is skipped')
  await until('the rest is tried', () => destination.waiting === 1)
  t.equal((await world.lane(id)).attempts, 0, 'the aborted attempt is not counted')
  destination.release()
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 4])
  await world.close()
})

t.test('rewind delivers again from the earliest, a stream_seq or a time', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  world.send(2)
  await world.clock.advance(60_000)
  const later = world.clock.now()
  world.send(3)
  await world.untilLane(id, 'delivered', ({ pending_messages }) => pending_messages === 0)
  const again = async (
    target: Parameters<typeof world.service.rewind>[1],
    cursor: number,
    seqs: number[],
  ) => {
    destination.stored.length = 0
    const { generation } = await world.saved(id)
    t.strictSame(await world.service.rewind(id, target), { kind: 'rewound', cursorSeq: cursor })
    await world.untilLane(id, 'delivered again', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, seqs)
    t.ok(
      (await world.saved(id)).generation > generation,
      'a table that counts by generations takes them again',
    )
  }
  await again({ to: 'earliest' }, 0, [1, 2, 3, 4, 5])
  await again({ to: 'seq', seq: 3 }, 3, [4, 5])
  await again({ to: 'time', timeMs: later }, 2, [3, 4, 5])
  await again({ to: 'seq', seq: 5 }, 5, [])
  world.drop(1)
  await again({ to: 'earliest' }, 1, [2, 3, 4, 5])
  t.match(await world.lane(id), { delivered_records: 19, dropped_messages: 0 })
  await world.close()
})

t.test('rewind clears a failure, and never passes over what is not delivered', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = refusing(3)
  world.send(5)
  await world.untilLane(
    id,
    'it stands at 3',
    (lane) => lane.cursor_seq === 2 && lane.next_attempt_ts !== null,
  )
  const ahead = { kind: 'ahead', cursorSeq: 2 }
  t.strictSame(await world.service.rewind(id, { to: 'seq', seq: 4 }), ahead, 'not beyond the cursor')
  t.strictSame(await world.service.rewind(id, { to: 'seq', seq: 99 }), ahead, 'not beyond the head')
  t.equal((await world.lane(id)).attempts > 0, true, 'and it is left as it was')
  destination.react = () => 'store'
  t.strictSame(await world.service.rewind(id, { to: 'seq', seq: 1 }), { kind: 'rewound', cursorSeq: 1 })
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 2, 3, 4, 5])
  await world.close()
})

t.test('commands one after the other on one lane are each answered', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient()
  world.send(4)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  const [skipped, second, retried] = await Promise.all([
    world.service.skip(id),
    world.service.skip(id),
    world.service.retryNow(id),
  ])
  t.strictSame(
    [skipped, second, retried],
    [true, false, null],
    'a second skip does not take the next message',
  )
  t.equal((await world.lane(id)).skipped_messages, 1)
  await world.close()
})
