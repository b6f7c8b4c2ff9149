import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent, refusing, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const messages = 1_000
const bound = 2 * Math.log2(messages) + 1

for (const [place, bad] of [
  ['first', 1],
  ['second', 2],
  ['middle', 500],
  ['one before the last', 999],
  ['last', 1000],
] as const) {
  t.test(`a bad message at the ${place} place is isolated; all before it are delivered once`, async (t) => {
    const world = await LaneWorld.open()
    const lane = await world.addLane()
    lane.destination.react = refusing(bad)
    world.send(messages)
    const view = await world.untilLane(
      lane.id,
      'it stands at the bad message',
      (found) => found.cursor_seq === bad - 1 && found.next_attempt_ts !== null,
    )
    t.strictSame(
      lane.destination.stored,
      Array.from({ length: bad - 1 }, (_, index) => index + 1),
      'everything before it, in order, nothing twice',
    )
    t.ok(lane.destination.attempts.length <= bound, `${lane.destination.attempts.length} attempts`)
    t.strictSame(lane.destination.attempts.at(-1)!.seqs, [bad], 'the last answer is about this message alone')
    t.match(view, { lane_state: 'retrying', last_error: { class: 'permanent', code: 'refused' } })
    t.match(await world.service.blockingMessage(lane.id), { stream_seq: bad, msg_id: view.blocking_msg_id })
    t.equal(world.events('lane.stuck').length, 1)

    const attempts = lane.destination.attempts.length
    await world.clock.advance(299_000)
    t.equal(lane.destination.attempts.length, attempts)
    await world.clock.advance(1_000)
    await until('it is tried again after 300 s', () => lane.destination.attempts.length === attempts + 1)
    t.equal(await world.service.skip(lane.id), true)
    const after = await world.untilLane(
      lane.id,
      'the rest is delivered',
      ({ lane_state }) => lane_state === 'idle',
    )
    t.equal(lane.destination.stored.length, messages - 1)
    t.match(after, { skipped_messages: 1, delivered_records: messages - 1, attempts: 0 })
    await world.close()
  })
}

t.test('negative control: without a bad message the same batch is one attempt', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = refusing(messages + 1)
  world.send(messages)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(destination.attempts.length, 1)
  await world.close()
})

t.test('several bad messages are found one after the other', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  const bad = [3, 4, 60, 100]
  destination.react = refusing(...bad)
  world.send(100)
  for (const seq of bad) {
    await world.untilLane(
      id,
      `it stands at ${seq}`,
      (lane) => lane.cursor_seq === seq - 1 && lane.next_attempt_ts !== null,
    )
    t.equal((await world.service.blockingMessage(id))!.stream_seq, seq)
    t.equal(await world.service.skip(id), true)
  }
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(destination.stored.length, 96)
  t.equal(new Set(destination.stored).size, 96, 'nothing twice')
  t.equal(lane.skipped_messages, 4)
  t.match(await world.metadata.usage.byPipe(world.workspaceId, 0), {
    [world.pipeId]: { delivered_records: 96, skipped_records: 4 },
  })
  await world.close()
})

t.test('a destination that rejects only the size takes the parts, and the lane goes on', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.messages.length > 30 ? permanent('http_413') : 'store')
  world.send(100)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.stored,
    Array.from({ length: 100 }, (_, index) => index + 1),
  )
  t.match(lane, { last_error: null, blocking_msg_id: null, skipped_messages: 0 })
  await world.close()
})

t.test("the driver's hint saves the search, and a wrong hint costs nothing but attempts", async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) =>
    batch.messages.some(({ seq }) => seq === 700) ? permanent('22003', 700) : 'store'
  world.send(messages)
  await world.untilLane(
    id,
    'it stands at 700',
    (lane) => lane.cursor_seq === 699 && lane.next_attempt_ts !== null,
  )
  t.strictSame(
    destination.attempts.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq]),
    [
      [1, 1000],
      [1, 699],
      [700, 700],
    ],
  )
  await world.service.skip(id)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')

  destination.react = (batch) =>
    batch.messages.some(({ seq }) => seq === 1_100) ? permanent('22003', 1_500) : 'store'
  world.send(messages)
  await world.untilLane(
    id,
    'it stands at 1100',
    (lane) => lane.cursor_seq === 1_099 && lane.next_attempt_ts !== null,
  )
  t.equal((await world.service.blockingMessage(id))!.stream_seq, 1_100)
  t.equal(new Set(destination.stored).size, destination.stored.length, 'nothing twice')
  await world.close()
})

t.test('a transient failure in the middle of the search pauses it and does not lose its place', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  const refuse = refusing(37)
  destination.react = (batch, attempt) => (attempt % 2 === 0 ? transient() : refuse(batch))
  world.send(64)
  await until('it stands at 37', async () => {
    await world.clock.advance(1_000)
    const lane = await world.lane(id)
    return (
      lane.cursor_seq === 36 &&
      lane.last_error?.class === 'permanent' &&
      destination.attempts.at(-1)!.seqs.length === 1
    )
  })
  t.strictSame(
    destination.stored,
    Array.from({ length: 36 }, (_, index) => index + 1),
  )
  await world.close()
})

t.test('the search goes on where it was after the process died in the middle of it', async (t) => {
  for (const dieAt of [2, 3, 4, 5, 6]) {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    const refuse = refusing(29)
    destination.react = (batch, attempt) => (attempt === dieAt ? 'hang' : refuse(batch))
    world.send(32)
    await until(`attempt ${dieAt}`, () => destination.attempts.length === dieAt)
    await world.restart()
    const view = await world.untilLane(
      id,
      'it stands at 29',
      (lane) => lane.cursor_seq === 28 && lane.last_error !== null && lane.next_attempt_ts !== null,
    )
    t.strictSame(
      destination.attempts[dieAt]!.identity,
      destination.attempts[dieAt - 1]!.identity,
      `died in attempt ${dieAt}: the same part is tried first`,
    )
    t.ok(destination.attempts.length <= 2 * Math.log2(32) + 2, `${destination.attempts.length} attempts`)
    t.equal(new Set(destination.stored).size, 28)
    t.equal(destination.stored.length, 28)
    t.ok(view.first_failed_ts)
    await world.close()
  }
})
