/**
 * Where batches are full, the ranges of the next ones are saved while one is under way: then no save stands between two
 * batches, and a crash changes no range that may have been sent.
 */
import t from 'tap'
import { batchIdentity } from '../../../src/delivery/batch.ts'
import {
  LaneOwnershipLostError,
  LaneStoreUnavailableError,
  nextRanges,
} from '../../../src/metadata/lane-state.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { type RecordingDestination, refusing, transient } from '../../support/recording-driver.ts'
import { changeLanes, storedLane } from '../../support/stored-lanes.ts'
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

const behind = {
  cursorMark: null,
  batchFirstSeq: 11,
  batchLastSeq: 20,
  nextFirstSeq: null,
  nextLastSeq: null,
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

t.test('batches are sent without a save in between while their ranges are saved', async (t) => {
  const { world, id, destination } = await openWorld(45)
  world.atSave = noRoom
  t.match(await world.saved(id), { nextLastSeq: 20, laterRanges: [[21, 30]] })
  for (const cursor of [10, 20, 30]) {
    destination.release()
    await world.untilLane(id, `stored through ${cursor}`, ({ cursor_seq }) => cursor_seq === cursor)
    await until(
      'the next attempt, if any',
      () => destination.attempts.length === Math.min(cursor / 10 + 1, 3),
    )
  }
  await world.clock.advance(1_000)
  t.equal(destination.attempts.length, 3, 'nothing is sent whose range is not saved')
  t.match(await world.saved(id), { cursorSeq: 0, batchLastSeq: 10, nextLastSeq: 20 })
  world.atSave = () => {}
  destination.react = () => 'store'
  await world.clock.advance(3_000)
  await world.untilLane(id, 'delivered', isIdle)
  const ranges = [
    [1, 10],
    [11, 20],
    [21, 30],
    [31, 40],
    [41, 45],
  ] as const
  t.strictSame(rangesOf(destination), ranges)
  t.strictSame(
    destination.attempts.map(({ identity }) => identity),
    ranges.map(([first, last]) => batchIdentity(id, first, last)),
  )
  await world.close()
})

t.test('full batches share saves; none is sent before its range is saved', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(10, 1_000_000, 1)
  const { id, destination } = await world.addLane()
  const unsaved: number[] = []
  let saves = 0
  world.atSave = () => {
    saves += 1
  }
  const isSaved = (firstSeq: number, lastSeq: number) => {
    const { batchFirstSeq, batchLastSeq, ...saved } = storedLane(world.metadataFile, id)!
    const ranges = [[batchFirstSeq, batchLastSeq], ...nextRanges(saved)]
    return ranges.some(([first, last]) => first === firstSeq && last === lastSeq)
  }
  destination.react = ({ firstSeq, lastSeq }) => {
    if (!isSaved(firstSeq, lastSeq)) unsaved.push(firstSeq)
    return 'slow'
  }
  world.send(400)
  for (let attempt = 1; attempt <= 40; attempt += 1) {
    const isUnderWay = () => destination.attempts.length === attempt && destination.waiting === 1
    await until(`attempt ${attempt}`, isUnderWay)
    const nextSeq = 10 * attempt + 1
    await until('the next range is saved', () => attempt === 40 || isSaved(nextSeq, nextSeq + 9))
    destination.release()
  }
  await world.untilLane(id, 'delivered', isIdle)
  t.equal(destination.attempts.length, 40)
  t.strictSame(unsaved, [])
  // At least two batches are read before each save.
  t.ok(saves <= 22, `${saves} saves`)
  await world.close()
})

t.test('a slow destination has a save for each batch', async () => {
  const { world, id, destination } = await openWorld(100)
  for (let attempt = 2; attempt <= 6; attempt += 1) {
    destination.release()
    await until(`attempt ${attempt}`, () => destination.attempts.length === attempt)
    await world.clock.advance(20)
    const saved = async () => (await world.saved(id)).cursorSeq === 10 * (attempt - 1)
    await until('the batches before it are saved while it is under way', saved)
  }
  destination.react = () => 'store'
  destination.release()
  await world.untilLane(id, 'delivered', isIdle)
  await world.close()
})

for (const [what, isControl] of [
  ['the same ranges again, whatever the limits are now', false],
  ['negative control: without the next ranges in the row they are cut as the limits are now', true],
] as const) {
  t.test(`the process dies while the second batch is sent, before the first is saved: ${what}`, async (t) => {
    const { world, id, destination } = await secondUnsaved()
    // A change while no process runs reaches no lane.
    const none = { nextFirstSeq: null, nextLastSeq: null, laterRanges: null }
    if (isControl) changeLanes(world.metadataFile, none, { destinationId: id })
    await world.limit(4, 1_000_000, 1, { isSeen: false })
    const ranges = await afterRestart(world, id, destination)
    const next = isControl
      ? [
          [11, 14],
          [15, 18],
          [19, 22],
        ]
      : [
          [11, 20],
          [21, 30],
          [31, 34],
        ]
    t.strictSame(ranges.slice(0, 4), [[1, 10], ...next])
    const [first, repeated] = [destination.attempts[0], destination.attempts[2]]
    t.equal(first?.identity, repeated?.identity)
    if (!isControl) t.equal(destination.attempts[1]?.identity, destination.attempts[3]?.identity)
    await world.close()
  })
}

t.test('the process dies while the third batch is sent: all three are repeated as they were', async (t) => {
  const { world, id, destination } = await secondUnsaved()
  destination.release()
  await until('the third attempt', () => destination.attempts.length === 3 && destination.waiting === 1)
  t.match(await world.saved(id), { cursorSeq: 0, batchFirstSeq: 1, batchLastSeq: 10 })
  await afterRestart(world, id, destination)
  const identities = destination.attempts.map(({ identity }) => identity)
  t.strictSame(identities.slice(3, 6), identities.slice(0, 3))
  t.strictSame(
    destination.stored.slice(20),
    [...Array(35).keys()].map((at) => at + 1),
  )
  await world.close()
})

t.test('ranges that an earlier version left behind the lane are dropped', async (t) => {
  const { world, id, destination } = await secondUnsaved()
  const left = [
    [5, 9],
    [15, 25],
    [26, 29],
  ] as const
  changeLanes(world.metadataFile, { cursorSeq: 10, ...behind, laterRanges: left }, { destinationId: id })
  t.strictSame(await afterRestart(world, id, destination), [
    [11, 20],
    [21, 25],
    [26, 29],
    [30, 35],
  ])
  t.equal((await world.saved(id)).laterRanges, null)
  await world.close()
})

t.test('after a save that found another owner nothing is sent, even if its range is saved', async (t) => {
  const { world, id, destination } = await openWorld(45)
  world.atSave = () => {
    throw new LaneOwnershipLostError([id])
  }
  destination.release()
  await until('the second attempt', () => destination.attempts.length === 2 && destination.waiting === 1)
  await world.clock.advance(20)
  await until('it is aborted', () => destination.waiting === 0)
  await world.clock.advance(10_000)
  t.equal(destination.attempts.length, 2)
  await world.close()
})

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
      [16, 20],
      [21, 30],
      [31, 35],
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
