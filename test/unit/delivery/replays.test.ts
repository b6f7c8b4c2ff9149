/** Replays of parked records by their lane: a batch each, after the one under way, also while the lane is stuck. */
import t from 'tap'
import { v5 } from 'uuid'
import { type Batch, DeliveryError } from '../../../src/destinations/driver.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const everything = { limit: 500, after: null, errorCode: null, reason: null }
const parks = { on_permanent_error: 'park' as const }
const refused = (code = 'refused') =>
  new DeliveryError('permanent', code, 'This will never do.', { fault: 'records' })

/** Messages 1 to `count`, all of them parked. */
async function allParked(count: number, records = 1) {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane(parks)
  destination.react = () => refused()
  world.send(count, { records, recordText: '{"n":1.10}' })
  await world.untilLane(
    id,
    'all are parked',
    (lane) => lane.parked_records === count && lane.cursor_seq === count,
  )
  destination.attempts.length = 0
  destination.react = () => 'store'
  const list = async () =>
    (await world.metadata.parked.list({ workspaceId: world.workspaceId, destinationId: id }, everything))
      .parked
  const replay = async (parkedId: string, texts: string[] | null = null) => {
    await world.metadata.parked.replay({ workspaceId: world.workspaceId, destinationId: id }, parkedId, texts)
    await world.service.parkedChanged(id)
  }
  const replayAll = async () => {
    const which = { ids: null, errorCode: null, reason: null }
    const asked = await world.metadata.parked.replayMany(
      { workspaceId: world.workspaceId, destinationId: id },
      which,
    )
    await world.service.parkedChanged(id)
    return asked
  }
  return { world, id, destination, list, replay, replayAll }
}

t.test('a replay that is stored: gone, counted, under an identity of its own', async (t) => {
  const { world, id, destination, list, replay } = await allParked(2)
  const [first] = await list()
  const before = await world.lane(id)
  await replay(first?.parked_id ?? '', ['{"n":12345678901234567890}'])
  const lane = await world.untilLane(id, 'it is stored', (one) => one.parked_records === 1)
  t.equal(lane.delivered_records, before.delivered_records + 1)
  t.equal(lane.cursor_seq, 2)
  t.match(destination.attempts, [
    {
      bodies: ['{"n":12345678901234567890}'],
      identity: v5('1', first?.parked_id ?? ''),
      firstSeq: 1,
      lastSeq: 1,
    },
  ])
  t.equal(destination.attempts.length, 1)
  t.strictSame(
    (await list()).map((row) => row.stream_seq),
    [2],
  )
  t.equal(world.events('lane.replayed').length, 1)
  await world.close()
})

t.test(
  'a replay that is refused is parked again with its history, and under another identity next time',
  async (t) => {
    const { world, id, destination, list, replay } = await allParked(1)
    const [first] = await list()
    const parkedId = first?.parked_id ?? ''
    destination.react = () => refused('still')
    await replay(parkedId)
    const isParkedAgain = async () => (await list())[0]?.state === 'parked'
    await until('it is parked again', isParkedAgain)
    const found = await world.metadata.parked.get(
      { workspaceId: world.workspaceId, destinationId: id },
      parkedId,
    )
    t.match(found?.record, { replays: 1, attempts: (first?.attempts ?? 0) + 1, error: { code: 'still' } })
    t.strictSame(
      found?.history.map(({ error }) => error.code),
      ['still', 'refused'],
    )
    t.equal((await world.lane(id)).blocking_msg_id, null, 'the lane is not stuck at it')
    await replay(parkedId)
    await until('and again', async () => (await list())[0]?.replays === 2 && (await isParkedAgain()))
    t.strictSame(
      destination.attempts.map(({ identity }) => identity),
      [v5('1', parkedId), v5('2', parkedId)],
    )
    await world.close()
  },
)

t.test('a replay goes on between the retries of a lane that is stuck elsewhere', async (t) => {
  const { world, id, destination, list, replay } = await allParked(1)
  const [first] = await list()
  destination.react = ({ messages }: Batch) => (messages[0]?.seq === 2 ? transient() : 'store')
  world.send(1)
  await world.untilLane(id, 'it is stuck at the next', ({ attempts }) => attempts === 1)
  await replay(first?.parked_id ?? '')
  const lane = await world.untilLane(id, 'the replay is stored', (one) => one.parked_records === 0)
  t.match(lane, { cursor_seq: 1, attempts: 1 })
  t.ok(lane.blocking_msg_id)
  await world.close()
})

t.test('a replay that fails for now is repeated, under its identity, and the lane goes on', async (t) => {
  const { world, id, destination, list, replay } = await allParked(1)
  const [first] = await list()
  destination.react = ({ messages }: Batch) => (messages[0]?.seq === 1 ? transient() : 'store')
  await replay(first?.parked_id ?? '')
  await until('it failed', () => destination.attempts.length === 1)
  world.send(3)
  await world.untilLane(id, 'the lane goes on', (lane) => lane.cursor_seq === 4)
  t.strictSame(destination.stored, [2, 3, 4])
  t.equal((await list())[0]?.state, 'replaying')
  destination.react = () => 'store'
  await until('it is repeated', async () => {
    await world.clock.advance(1_000)
    return (await world.lane(id)).parked_records === 0
  })
  const replays = destination.attempts.filter(({ firstSeq }) => firstSeq === 1)
  t.equal(new Set(replays.map(({ identity }) => identity)).size, 1)
  await world.close()
})

t.test('a replay that no attempt brought through for the whole window is parked again', async (t) => {
  const { world, id, destination, list, replay } = await allParked(1)
  await world.change(id, { destination_max_retry_seconds: 5 })
  const [first] = await list()
  destination.react = () => transient('http_503')
  await replay(first?.parked_id ?? '')
  await until('it is given up', async () => {
    await world.clock.advance(2_000)
    return (await list())[0]?.state === 'parked'
  })
  t.match(await list(), [{ error: { code: 'http_503' } }])
  await world.close()
})

t.test('a fault of the destination parks nothing again', async (t) => {
  const { world, destination, list, replayAll } = await allParked(3)
  destination.react = () =>
    new DeliveryError('permanent', '28P01', 'wrong password', { fault: 'destination' })
  t.equal(await replayAll(), 3)
  await until('it was tried', () => destination.attempts.length === 1)
  t.strictSame(
    (await list()).map(({ state, error }) => [state, error.code]),
    Array(3).fill(['replaying', 'refused']),
  )
  t.equal(destination.attempts.length, 1, 'one is enough to know')
  await world.close()
})

t.test('a blocked destination keeps what was asked for', async (t) => {
  const { world, id, destination, list, replayAll } = await allParked(2)
  await world.change(id, { destination_status: 'blocked' })
  await replayAll()
  await world.restart()
  t.strictSame(
    (await list()).map(({ state }) => state),
    ['replaying', 'replaying'],
  )
  t.equal(destination.attempts.length, 0)
  await world.change(id, { destination_status: 'active' })
  await world.untilLane(id, 'both are stored', (lane) => lane.parked_records === 0)
  await world.close()
})

t.test('many replays and the lane take turns', async (t) => {
  const { world, id, destination, replayAll } = await allParked(40)
  world.buffer.append(world.pipeId, 1, world.clock.now(), '{"b":1}')
  const order: number[] = []
  destination.react = ({ messages }: Batch) => {
    order.push(messages[0]!.seq)
    if (order.length === 3) world.send(1)
    return 'store'
  }
  t.equal(await replayAll(), 40)
  await world.untilLane(id, 'all are stored', (lane) => lane.parked_records === 0 && lane.cursor_seq === 42)
  t.ok(order.indexOf(42) < 10, 'what came meanwhile did not wait for all of them')
  const replayed = order.filter((seq) => seq <= 40)
  t.strictSame(
    replayed,
    [...replayed].sort((a, b) => a - b),
    'in the order of their messages',
  )
  await world.close()
})

t.test('of a message that is replayed half-way the rest is replayed', async (t) => {
  const { world, id, destination, list, replay } = await allParked(1, 5)
  const [first] = await list()
  destination.react = () => 'partly'
  destination.takes = 2
  destination.full = transient('http_429', 1_000)
  await replay(first?.parked_id ?? '')
  await until('two are stored', async () => (await list())[0]?.records_count === 3)
  destination.takes = 3
  await until('the rest is stored', async () => {
    await world.clock.advance(2_000)
    return (await world.lane(id)).parked_records === 0
  })
  t.equal(destination.records.length, 5)
  await world.close()
})

t.test(
  'a process that dies around a replay repeats it under the same identity, or has it done',
  async (t) => {
    for (const isBefore of [true, false]) {
      const { world, id, destination, list } = await allParked(1)
      await world.lanes.close(0)
      await world.restart()
      const [first] = await list()
      let isReached = false
      world.dieAtSave = { isBefore, onReached: () => (isReached = true) }
      await world.metadata.parked.replay(
        { workspaceId: world.workspaceId, destinationId: id },
        first?.parked_id ?? '',
        null,
      )
      void world.service.parkedChanged(id)
      await until('the save is reached', () => isReached)
      t.equal((await list()).length, isBefore ? 1 : 0)
      const tried = destination.attempts.length
      await world.restart()
      await world.untilLane(id, 'it is done', (lane) => lane.parked_records === 0)
      const identities = new Set(destination.attempts.map(({ identity }) => identity))
      t.equal(identities.size, 1)
      t.equal(destination.attempts.length, isBefore ? tried + 1 : tried)
      t.equal((await world.saved(id)).deliveredRecords, 1, 'counted once')
      await world.close()
    }
  },
)

t.test('what the lane has not passed again is not replayed: it may still be stored by itself', async (t) => {
  const { world, id, destination, list, replayAll } = await allParked(2)
  destination.react = () => transient()
  await world.service.rewind(id, { to: 'earliest' })
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  const before = destination.attempts.length
  await replayAll()
  await world.untilLane(id, 'it still waits', ({ attempts }) => attempts === 1)
  t.strictSame(
    destination.attempts.slice(before).filter(({ firstSeq, lastSeq }) => firstSeq === lastSeq),
    [],
  )
  destination.react = () => 'store'
  await world.service.retryNow(id)
  await world.untilLane(
    id,
    'both are delivered',
    (lane) => lane.cursor_seq === 2 && lane.parked_records === 0,
  )
  t.strictSame(destination.stored, [1, 2], 'once')
  t.strictSame(await list(), [])
  await world.close()
})
