/**
 * Where batches are full, the range of the next one is saved while the one before it is under way: then no save stands
 * between two batches, and a crash changes no range that may have been sent.
 */
import t from 'tap'
import { batchIdentity } from '../../../src/delivery/batch.ts'
import { LaneStoreUnavailableError } from '../../../src/metadata/lane-state.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { type RecordingDestination, refusing, transient } from '../../support/recording-driver.ts'
import { changeLanes } from '../../support/stored-lanes.ts'
import { until } from '../../support/until.ts'

const isIdle = ({ lane_state }: { lane_state: string }) => lane_state === 'idle'
const noRoom = () => {
  throw new LaneStoreUnavailableError(new Error('database or disk is full'))
}

/** Batches of 10; the first is under way, and the range of the second is saved. */
async function openWorld(messages = 35) {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  destination.react = () => 'slow'
  world.send(messages)
  await until('the first attempt', () => destination.waiting === 1)
  await until('the next range is saved', async () => (await world.saved(id)).nextLastSeq === 20)
  return { world, id, destination }
}

/** The second batch is being sent, and nothing could be saved since it was. */
async function secondUnsaved() {
  const opened = await openWorld()
  const { world, id, destination } = opened
  world.atSave = noRoom
  destination.release()
  await until('the second attempt', () => destination.attempts.length === 2 && destination.waiting === 1)
  t.match(await world.saved(id), { cursorSeq: 0, batchFirstSeq: 1, batchLastSeq: 10 })
  return opened
}

const rangesOf = ({ attempts }: RecordingDestination) =>
  attempts.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq])

/** The attempts of a process that is started now, until the lane has nothing left. */
async function afterRestart(world: LaneWorld, id: string, destination: RecordingDestination) {
  world.atSave = () => {}
  destination.react = () => 'store'
  const before = destination.attempts.length
  await world.restart()
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  return rangesOf(destination).slice(before)
}

t.test('the next batch is sent without a save in between; the one after it is not', async (t) => {
  const { world, id, destination } = await secondUnsaved()
  destination.release()
  await world.untilLane(id, 'the second is stored', ({ cursor_seq }) => cursor_seq === 20)
  await world.clock.advance(1_000)
  t.equal(destination.attempts.length, 2, 'nothing is sent whose range is not saved')
  world.atSave = () => {}
  destination.react = () => 'store'
  await world.clock.advance(3_000)
  await world.untilLane(id, 'delivered', isIdle)
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
  await world.close()
})

t.test('one save for each batch while batches are full', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  const savesAtAttempt: number[] = []
  let saves = 0
  world.atSave = () => {
    saves += 1
  }
  destination.react = () => {
    savesAtAttempt.push(saves)
    return 'slow'
  }
  world.send(100)
  for (let attempt = 1; attempt <= 9; attempt += 1) {
    await until(`attempt ${attempt}`, () => destination.attempts.length === attempt)
    await until('the next is saved', async () => (await world.saved(id)).nextLastSeq === attempt * 10 + 10)
    destination.release()
  }
  await until('the last attempt', () => destination.attempts.length === 10)
  t.strictSame(
    savesAtAttempt,
    // Before the first its range is saved, and none between two.
    savesAtAttempt.map((_, attempt) => attempt + 1),
  )
  destination.react = () => 'store'
  destination.release()
  await world.untilLane(id, 'delivered', isIdle)
  await world.close()
})

for (const [what, isControl] of [
  ['the same two ranges again, whatever the limits are now', false],
  ['negative control: without the next range in the row it is cut as the limits are now', true],
] as const) {
  t.test(`the process dies while the second batch is sent, before the first is saved: ${what}`, async (t) => {
    const { world, id, destination } = await secondUnsaved()
    // A change while no process runs reaches no lane.
    if (isControl)
      changeLanes(world.metadataFile, { nextFirstSeq: null, nextLastSeq: null }, { destinationId: id })
    await world.limit(4, 1_000_000, 1, { isSeen: false })
    const ranges = await afterRestart(world, id, destination)
    const second = isControl
      ? [
          [11, 14],
          [15, 18],
        ]
      : [
          [11, 20],
          [21, 24],
        ]
    t.strictSame(ranges.slice(0, 3), [[1, 10], ...second])
    const [first, repeated] = [destination.attempts[0], destination.attempts[2]]
    t.equal(first?.identity, repeated?.identity)
    if (!isControl) t.equal(destination.attempts[1]?.identity, destination.attempts[3]?.identity)
    await world.close()
  })
}

t.test(
  'after a crash the first batch fails for good: its parts end where the next range begins',
  async (t) => {
    const { world, id, destination } = await secondUnsaved()
    world.atSave = () => {}
    destination.react = refusing(5)
    await world.restart()
    await world.untilLane(
      id,
      'stuck',
      ({ lane_state, cursor_seq }) => lane_state === 'retrying' && cursor_seq === 4,
    )
    t.match(await world.saved(id), { nextFirstSeq: 11, nextLastSeq: 20 })
    t.equal(await world.service.skip(id), true)
    await world.clock.advance(2_000)
    await world.untilLane(id, 'delivered', isIdle)
    const ranges = rangesOf(destination)
    t.ok(
      ranges.every(([first = 0, last = 0]) => first <= 10 === last <= 10),
      'none reaches over the edge',
    )
    t.strictSame(
      ranges.filter(([first = 0]) => first > 10),
      [
        [11, 20],
        [11, 20],
        [21, 30],
        [31, 35],
      ],
    )
    t.equal(new Set(destination.stored.slice(10)).size, 34)
    t.notOk(destination.stored.slice(10).includes(5))
    await world.close()
  },
)

t.test('a first batch that fails gives up the next range, which was not sent', async (t) => {
  const { world, id, destination } = await openWorld()
  destination.react = () => transient()
  await world.change(id, { destination_status: 'blocked' })
  await world.change(id, { destination_status: 'active' })
  await until('it is attempted again', () => destination.attempts.length >= 2)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
  await until('saved', async () => (await world.saved(id)).attempts > 0)
  t.match(await world.saved(id), { batchLastSeq: 10, nextFirstSeq: null, nextLastSeq: null })
  destination.react = () => 'store'
  await world.clock.advance(60_000)
  await world.untilLane(id, 'delivered', isIdle)
  await world.close()
})

t.test(
  'after a crash retention has dropped part of the next range: what is left is another batch',
  async (t) => {
    const { world, id, destination } = await secondUnsaved()
    world.buffer.drop(world.pipeId, 15)
    const ranges = await afterRestart(world, id, destination)
    t.strictSame(ranges, [
      [16, 25],
      [26, 35],
    ])
    t.equal((await world.lane(id)).dropped_messages, 15)
    await world.close()
  },
)

t.test('lowered limits cut the next range, too', async (t) => {
  const { world, id, destination } = await openWorld(20)
  destination.react = () => 'store'
  await world.limit(4, 1_000_000, 1)
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.strictSame(rangesOf(destination).slice(1, 4), [
    [1, 4],
    [5, 8],
    [9, 12],
  ])
  await world.close()
})

t.test('a message that fails in a batch sent ahead of its save is found, and only it', async (t) => {
  const { world, id, destination } = await secondUnsaved()
  world.atSave = () => {}
  destination.react = refusing(13)
  await world.restart()
  await world.untilLane(id, 'stuck', ({ cursor_seq }) => cursor_seq === 12)
  t.equal(await world.service.skip(id), true)
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', isIdle)
  t.notOk(destination.stored.slice(10).includes(13))
  await world.close()
})
