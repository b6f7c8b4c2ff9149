/** The batch after the one under way is in memory: everything is as if it were not, only sooner. */
import t from 'tap'
import { batchIdentity } from '../../../src/delivery/batch.ts'
import { MemoryBudget } from '../../../src/delivery/memory-budget.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import type { RecordingDestination } from '../../support/recording-driver.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const isIdle = ({ lane_state }: { lane_state: string }) => lane_state === 'idle'

/** Batches of 10; the first attempt is under way, and what follows it has been read ahead. */
async function heldWorld(messages = 35) {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
  world.send(messages)
  await until('the first attempt', () => destination.waiting === 1)
  await until('the next batch is read', () => world.lanes.budget.lentBytes > 0)
  return { world, id, destination }
}

const rangesOf = ({ attempts }: RecordingDestination) =>
  attempts.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq])

t.test('the next full batch is read while one is under way; order and identities stay', async (t) => {
  const { world, id, destination } = await heldWorld()
  const { reads } = world.buffer
  let readsAtSecond = 0
  destination.react = (_, attempt) => {
    if (attempt === 2) readsAtSecond = world.buffer.reads
    return 'store'
  }
  destination.release()
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.equal(readsAtSecond, reads, 'the second batch was in memory')
  const ranges = [
    [1, 10],
    [11, 20],
    [21, 30],
    [31, 35],
  ] as const
  t.strictSame(rangesOf(destination), ranges)
  t.strictSame(
    destination.attempts.map(({ identity }) => identity),
    ranges.map(([first, last]) => batchIdentity(id, first, last)),
  )
  t.strictSame(
    destination.stored,
    [...Array(35).keys()].map((at) => at + 1),
  )
  t.equal(world.lanes.budget.reservedBytes + world.lanes.budget.lentBytes, 0, 'all memory is returned')
  await world.close()
})

t.test('what does not fill a batch is not read ahead: what arrives meanwhile belongs to it', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(15)
  await until('the first attempt', () => destination.waiting === 1)
  await world.clock.advance(100)
  t.equal(world.lanes.budget.lentBytes, 0)
  world.send(3)
  destination.react = () => 'store'
  destination.release()
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.strictSame(rangesOf(destination), [
    [1, 10],
    [11, 18],
  ])
  await world.close()
})

t.test('a lane that fails holds nothing, and repeats its batch under the same identity', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  let lentWhileRetrying = -1
  destination.react = (_, attempt) => {
    if (attempt === 1) return 'slow'
    if (attempt === 3) lentWhileRetrying = world.lanes.budget.lentBytes
    return attempt < 4 ? transient('unreachable') : 'store'
  }
  world.send(20)
  await until('the first attempt', () => destination.waiting === 1)
  await until('the next batch is read', () => world.lanes.budget.lentBytes > 0)
  destination.release()
  await world.untilLane(id, 'the second batch failed', ({ attempts }) => attempts === 1)
  t.equal(world.lanes.budget.lentBytes, 0)
  await world.clock.advance(10_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.equal(lentWhileRetrying, 0)
  t.strictSame(rangesOf(destination), [
    [1, 10],
    [11, 20],
    [11, 20],
    [11, 20],
  ])
  t.equal(new Set(destination.attempts.slice(1).map(({ identity }) => identity)).size, 1)
  await world.close()
})

t.test('a first failure gives back what was read ahead', async (t) => {
  const { world, id, destination } = await heldWorld(20)
  destination.react = () => transient('unreachable')
  const limit = world.clock.advance(60_000)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
  t.equal(world.lanes.budget.lentBytes, 0)
  await limit
  destination.react = () => 'store'
  await world.clock.advance(300_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.strictSame(
    destination.stored,
    [...Array(20).keys()].map((at) => at + 1),
  )
  await world.close()
})

for (const { name, command, ranges } of [
  {
    name: 'rewind',
    command: (world: LaneWorld, id: string) => world.service.rewind(id, { to: 'earliest' }),
    // The batch under way was aborted.
    ranges: [
      [1, 10],
      [1, 10],
      [11, 20],
    ],
  },
  {
    name: 'another flush plan',
    command: (world: LaneWorld) => world.limit(4, 1_000_000, 1),
    ranges: [
      [1, 10],
      [1, 4],
      [5, 8],
      [9, 12],
      [13, 16],
      [17, 20],
    ],
  },
  {
    name: 'another destination',
    command: (world: LaneWorld, id: string) =>
      world.change(id, { destination_config: { url: 'http://127.0.0.1:8/' } }),
    ranges: [
      [1, 10],
      [1, 10],
      [11, 20],
    ],
  },
]) {
  t.test(`${name} while a batch is read ahead discards it`, async (t) => {
    const { world, id, destination } = await heldWorld(20)
    await command(world, id)
    await world.clock.advance(2_000)
    await world.untilLane(id, 'delivered', isIdle)
    t.strictSame(rangesOf(destination), ranges)
    t.equal(world.lanes.budget.lentBytes, 0)
    await world.close()
  })
}

t.test('a blocked destination holds nothing, and goes on with the same batch', async (t) => {
  const { world, id, destination } = await heldWorld(20)
  await world.change(id, { destination_status: 'blocked' })
  await world.untilLane(id, 'blocked', ({ lane_state }) => lane_state === 'blocked')
  t.equal(world.lanes.budget.lentBytes, 0)
  t.equal(world.lanes.budget.reservedBytes, 0)
  await world.change(id, { destination_status: 'active' })
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.strictSame(rangesOf(destination), [
    [1, 10],
    [1, 10],
    [11, 20],
  ])
  await world.close()
})

t.test('skip of the message that blocks, while nothing may be read ahead', async (t) => {
  const { world, id, destination } = await heldWorld(20)
  destination.react = ({ messages }) =>
    messages.some(({ seq }) => seq === 11) ? transient('unreachable') : 'store'
  destination.release()
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
  t.equal(await world.service.skip(id), true)
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.notOk(destination.stored.includes(11))
  t.equal(destination.stored.length, 19)
  await world.close()
})

t.test('the process dies while a batch is read ahead: the same ranges as before', async (t) => {
  const { world, id, destination } = await heldWorld(20)
  destination.react = () => 'store'
  t.match(await world.saved(id), { cursorSeq: 0, batchFirstSeq: 1, batchLastSeq: 10 })
  await world.restart()
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.strictSame(rangesOf(destination), [
    [1, 10],
    [1, 10],
    [11, 20],
  ])
  t.equal(destination.attempts[0]?.identity, destination.attempts[1]?.identity)
  await world.close()
})

t.test('a half-stored batch goes on at its offset, not with what was read ahead', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  destination.react = () => 'partly'
  destination.takes = 13
  world.send(5, { records: 5 })
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
  await until('it is saved', async () => (await world.saved(id)).recordOffset === 3)
  t.equal((await world.saved(id)).cursorSeq, 2)
  t.equal(world.lanes.budget.lentBytes, 0)
  destination.takes = 1_000
  await world.clock.advance(10_000)
  await world.untilLane(id, 'delivered', isIdle)
  const expected = [1, 2, 3, 4, 5].flatMap((seq) => [0, 1, 2, 3, 4].map((at) => `${seq}:${at}`))
  t.strictSame(destination.records, expected)
  await world.close()
})

t.test('what retention drops after it was read ahead is counted, and not delivered', async (t) => {
  const { world, id, destination } = await heldWorld(25)
  world.drop(15)
  destination.release()
  await world.clock.advance(3_000)
  const lane = await world.untilLane(id, 'delivered', isIdle)
  t.equal(lane.dropped_messages, 5)
  t.strictSame(rangesOf(destination), [
    [1, 10],
    [16, 25],
  ])
  await world.close()
})

t.test('damage in the next batch is met by the lane itself', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
  world.send(20, { notify: false })
  world.buffer.damage(15)
  let hasReadAhead = false
  world.buffer.beforeRead = () => {
    hasReadAhead ||= destination.waiting > 0
  }
  world.send(1)
  await until('it has read ahead', () => hasReadAhead)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(world.lanes.budget.lentBytes, 0)
  destination.release()
  await world.clock.advance(5_000)
  const lane = await world.untilLane(id, 'delivered', isIdle)
  t.equal(lane.dropped_messages, 1)
  t.strictSame(
    destination.stored,
    [...Array(21).keys()].map((at) => at + 1).filter((seq) => seq !== 15),
  )
  await world.close()
})

t.test('an error in reading ahead ends the lane, as in any other read', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { destination } = await world.addLane()
  destination.react = () => 'slow'
  world.buffer.beforeRead = () => {
    if (destination.waiting > 0) throw new Error('the disk is gone')
  }
  world.send(20)
  await until('the first attempt', () => destination.waiting === 1)
  await world.clock.advance(100)
  world.buffer.beforeRead = () => {}
  destination.release()
  await until('the lane has ended', () => world.fatal.length === 1)
  t.match(world.fatal.pop(), { message: 'the disk is gone' })
  await t.rejects(world.close(), { message: 'the disk is gone' })
})

t.test(
  'batches get what they would get if nothing were lent, and all together no more than the budget',
  async (t) => {
    const budget = new MemoryBudget(1_000)
    const [one, other] = [budget.of('one'), budget.of('other')]
    const takenBack: string[] = []
    const lend = (bytes: number, name: string) => one.trySpare(bytes, () => void takenBack.push(name))
    const first = one.tryReserve(300)
    t.ok(lend(300, 'old'))
    const young = lend(300, 'young')
    t.ok(young)
    t.equal(lend(200, 'too much'), null)
    t.equal(budget.lentBytes, 600)
    const second = other.tryReserve(350)
    t.ok(second, 'as if nothing were lent')
    t.strictSame(takenBack, ['old'], 'only as much as is needed, the oldest first')
    t.equal(budget.reservedBytes + budget.lentBytes, 950)
    first?.resize(500)
    t.strictSame(takenBack, ['old', 'young'])
    young?.release()
    t.equal(budget.lentBytes, 0, 'taken back and released count once')
    const wait = new AbortController()
    const waiting = other.reserve(400, wait.signal)
    t.equal(lend(10, 'late'), null, 'nothing is lent while a batch waits')
    wait.abort()
    t.equal(await waiting, null)
    t.ok(lend(10, 'later'))
  },
)
