/** `on_permanent_error: park`: what a destination rejects for what it holds is parked, and the lane continues. */
import t from 'tap'
import { type Batch, DeliveryError, type RejectedRecord } from '../../../src/destinations/driver.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

const everything = { limit: 500, after: null, errorCode: null, reason: null }
const parks = { on_permanent_error: 'park' as const }

async function parkedOf(world: LaneWorld, id: string) {
  return (await world.metadata.parked.list({ workspaceId: world.workspaceId, destinationId: id }, everything))
    .parked
}

/** The record or message is at fault; `seqs` are refused. */
function refusing(seqs: readonly number[], fault: 'records' | 'destination' = 'records') {
  return ({ messages }: Batch) =>
    messages.some(({ seq }) => seqs.includes(seq))
      ? new DeliveryError('permanent', 'refused', 'This will never do.', { fault })
      : 'store'
}

/** A destination that tells records apart: these are rejected, by message. */
function rejecting(bad: Record<number, number[]>) {
  return ({ messages }: Batch): RejectedRecord[] =>
    messages.flatMap(({ seq }) =>
      (bad[seq] ?? []).map((recordIndex) => ({
        ...{ seq, recordIndex, code: '22003', message: 'out of range', column: 'n', value: '1e99' },
      })),
    )
}

t.test('one refused message among many is parked, and nothing else waits', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(parks)
  destination.react = refusing([700, 900])
  world.send(1_000, { records: 2 })
  const lane = await world.untilLane(id, 'all is done', ({ lane_state }) => lane_state === 'idle')
  t.match(lane, { delivered_records: 1_996, parked_records: 2, skipped_messages: 0, last_error: null })
  t.equal(destination.stored.length, 998)
  t.match(await parkedOf(world, id), [
    { stream_seq: 700, record_index: null, reason: 'permanent_error', records_count: 2 },
    { stream_seq: 900, error: { code: 'refused', message: 'This will never do.' } },
  ])
  t.equal(world.events('lane.parked').length, 2)
  t.equal(world.events('lane.stuck').length, 0)
  await world.close()
})

t.test('what is no fault of the records blocks, and parks nothing', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(parks)
  destination.react = refusing([1, 2, 3], 'destination')
  world.send(3)
  const lane = await world.untilLane(id, 'it is stuck', (one) => one.last_error?.class === 'permanent')
  await world.untilLane(id, 'at one message', (one) => one.attempts >= 2 && one.next_attempt_ts !== null)
  t.match(await world.lane(id), { parked_records: 0, cursor_seq: 0, delivered_records: 0 })
  t.ok(lane.blocking_msg_id)
  await world.close()
})

t.test('control: a destination that blocks stops at the refused message', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = refusing([2])
  world.send(3)
  await world.untilLane(id, 'it is stuck', (one) => one.cursor_seq === 1 && one.next_attempt_ts !== null)
  t.strictSame(await parkedOf(world, id), [])
  await world.change(id, parks)
  await world.untilLane(id, 'it parks as soon as it may', (one) => one.lane_state === 'idle')
  t.strictSame(destination.stored, [1, 3])
  await world.close()
})

t.test('refused records cost themselves alone', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(parks)
  destination.parks = rejecting({ 2: [1], 3: [0, 2] })
  world.send(4, { records: 3, recordText: '{"n":1.10}' })
  const lane = await world.untilLane(id, 'all is done', ({ lane_state }) => lane_state === 'idle')
  t.match(lane, { delivered_records: 9, parked_records: 3 })
  const parked = await parkedOf(world, id)
  t.match(parked, [
    { stream_seq: 2, record_index: 1, records_count: 1, attempts: 1, error: { column: 'n', value: '1e99' } },
    { stream_seq: 3, record_index: 0 },
    { stream_seq: 3, record_index: 2 },
  ])
  const found = await world.metadata.parked.get(
    { workspaceId: world.workspaceId, destinationId: id },
    parked[0]?.parked_id ?? '',
  )
  t.strictSame(found?.recordTexts, ['{"n":1.10}'])
  t.equal(destination.attempts.length, 1, 'in one attempt')
  await world.close()
})

t.test('a rewind: refused again it is the same row; delivered now it is no longer parked', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(parks)
  destination.parks = rejecting({ 2: [0], 3: [0] })
  world.send(3)
  await world.untilLane(id, 'all is done', (lane) => lane.lane_state === 'idle' && lane.parked_records === 2)
  const before = await parkedOf(world, id)
  destination.parks = rejecting({ 3: [0] })
  await world.service.rewind(id, { to: 'earliest' })
  await world.untilLane(id, 'all is done again', (lane) => lane.cursor_seq === 3 && lane.parked_records === 1)
  const after = await parkedOf(world, id)
  t.match(after, [{ parked_id: before[1]?.parked_id, stream_seq: 3, attempts: 2 }])
  await world.close()
})

t.test('without room the lane blocks, says why, and goes on when there is room', async (t) => {
  const world = await LaneWorld.open()
  world.maxParkedBytes = 1_500
  await world.restart(0)
  const { id, destination } = await world.addLane(parks)
  destination.react = refusing([1, 3])
  world.send(4)
  const lane = await world.untilLane(id, 'it is full', (one) => one.last_error?.code === 'parked_full')
  t.match(lane.last_error?.message, /parked\.max_bytes.*This will never do/)
  t.match(lane, { cursor_seq: 2, parked_records: 1 })
  const [first] = await parkedOf(world, id)
  t.equal(
    await world.metadata.parked.discard(
      { workspaceId: world.workspaceId, destinationId: id },
      first?.parked_id ?? '',
    ),
    'discarded',
  )
  await world.service.parkedChanged(id)
  t.match(await world.lane(id), { parked_records: 0 })
  await world.service.retryNow(id)
  await world.untilLane(id, 'it goes on', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [2, 4])
  await world.close()
})

t.test(
  'without room for refused records nothing of the batch is stored but what is before them',
  async (t) => {
    const world = await LaneWorld.open()
    world.maxParkedBytes = 100
    await world.restart(0)
    const { id, destination } = await world.addLane(parks)
    destination.parks = rejecting({ 3: [0] })
    world.send(4)
    const lane = await world.untilLane(
      id,
      'full',
      (one) => one.cursor_seq === 2 && one.next_attempt_ts !== null,
    )
    t.equal(lane.last_error?.code, 'parked_full')
    t.strictSame(destination.stored, [1, 2])
    await world.close()
  },
)

t.test(
  'a process that dies between parking, storing and saving loses and doubles no parked record',
  async (t) => {
    for (const at of ['parked', 'stored'] as const) {
      const world = await LaneWorld.open()
      const { id, destination } = await world.addLane(parks)
      destination.parks = rejecting({ 2: [0] })
      if (at === 'parked') destination.afterPark = 'hang'
      world.send(3)
      if (at === 'parked')
        await until('the record is kept', async () => (await parkedOf(world, id)).length === 1)
      else await world.untilLane(id, 'all is stored', () => destination.stored.length === 3)
      destination.afterPark = 'store'
      await world.restart()
      const lane = await world.untilLane(id, 'all is done', (one) => one.cursor_seq === 3)
      t.match(lane, { parked_records: 1 })
      const parked = await parkedOf(world, id)
      t.match(parked, [{ stream_seq: 2, record_index: 0 }])
      await world.close()
    }
  },
)

t.test(
  'what was parked before a crash is not counted as delivered, though nothing is sent again',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane(parks)
    destination.parks = rejecting({ 2: [0, 3] })
    let isReached = false
    let saves = 0
    world.atSave = () => {
      saves += 1
      if (saves === 2) world.dieAtSave = { isBefore: true, onReached: () => (isReached = true) }
    }
    world.send(3, { records: 5 })
    await until('it dies before the save of what is stored', () => isReached)
    t.match([destination.stored, (await parkedOf(world, id)).length], [[1, 2, 3], 2])
    world.atSave = () => {}
    // As one with `exactly_once`, whose row says that all of it is stored: it looks at no record.
    destination.parks = () => []
    await world.restart()
    const lane = await world.untilLane(id, 'all is done', (one) => one.cursor_seq === 3)
    t.match(lane, { delivered_records: 13, parked_records: 2, filtered_records: 0, skipped_messages: 0 })
    await until('the same is stored', async () => {
      const usage = await world.metadata.usage.byPipe(world.workspaceId, 0)
      return usage[world.pipeId]?.delivered_records === 13
    })
    await world.close()
  },
)

t.test('a message is parked in the save that passes it, or not at all', async (t) => {
  for (const isBefore of [true, false]) {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane(parks)
    destination.react = refusing([1])
    let isReached = false
    const [firstSave, parkingSave] = [1, 2]
    let saves = 0
    world.atSave = () => {
      saves += 1
      if (saves === firstSave) world.dieAtSave = null
      if (saves === parkingSave) world.dieAtSave = { isBefore, onReached: () => (isReached = true) }
    }
    world.send(1)
    await until('the save is reached', () => isReached)
    const parked = await parkedOf(world, id)
    const { cursorSeq } = await world.saved(id)
    t.strictSame([parked.length, cursorSeq], isBefore ? [0, 0] : [1, 1])
    world.atSave = () => {}
    await world.restart()
    await world.untilLane(id, 'it is done', (lane) => lane.cursor_seq === 1 && lane.parked_records === 1)
    await world.close()
  }
})
