/**
 * The records that a destination's transform filters out are in the hourly usage exactly as often as in the lane's
 * own counter.
 */
import t from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

/** The counts of the lane's row, of its hours and of those of its pipe, which has no other lane. */
async function counted(world: LaneWorld, id: string) {
  const { deliveredRecords, filteredRecords } = await world.saved(id)
  const hours = await world.metadata.usage.ofLane(
    { workspaceId: world.workspaceId, destinationId: id },
    0,
    Number.MAX_SAFE_INTEGER,
  )
  const sum = (of: 'delivered_records' | 'filtered_records') =>
    [...hours.values()].reduce((total, hour) => total + hour[of], 0)
  const pipe = (await world.metadata.usage.byPipe(world.workspaceId, 0))[world.pipeId]
  return {
    lane: [deliveredRecords, filteredRecords],
    hours: [sum('delivered_records'), sum('filtered_records')],
    pipe: [pipe?.delivered_records ?? 0, pipe?.filtered_records ?? 0],
  }
}
const all = (delivered: number, filtered: number) => ({
  lane: [delivered, filtered],
  hours: [delivered, filtered],
  pipe: [delivered, filtered],
})

/** Of each message with five records it filters out the first ones. */
const without = (records: number) => ({ filter: `record.n >= ${records}`, map: [], mask_salt: null })
const fiveRecords = { records: 5, recordText: (n: number) => `{"n":${n}}` }

async function filteringLane(filtered: number) {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ transform: without(filtered) })
  const isSaved = (seq: number) =>
    until(`${seq} is saved`, async () => (await world.saved(id)).cursorSeq === seq)
  return { world, id, destination, isSaved }
}

t.test('some of a batch, and a batch of which nothing is left', async (t) => {
  const { world, id, isSaved } = await filteringLane(2)
  world.send(3, fiveRecords)
  await isSaved(3)
  t.strictSame(await counted(world, id), all(9, 6))
  await world.change(id, { transform: without(5) })
  world.send(2, fiveRecords)
  await isSaved(5)
  t.strictSame(await counted(world, id), all(9, 16))
  await world.restart()
  t.strictSame(await counted(world, id), all(9, 16))
  await world.close()
})

t.test('failed attempts count nothing, and the one that is stored counts once', async (t) => {
  const { world, id, destination, isSaved } = await filteringLane(2)
  destination.react = () => transient('connection_lost')
  world.send(2, fiveRecords)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(1_000)
  await world.untilLane(id, 'it failed again', ({ attempts }) => attempts > 1)
  t.strictSame(await counted(world, id), all(0, 0))
  destination.react = () => 'store'
  await world.clock.advance(60_000)
  await isSaved(2)
  t.strictSame(await counted(world, id), all(6, 4))
  await world.close()
})

for (const isBefore of [true, false]) {
  const when = isBefore ? 'before' : 'after'
  t.test(`a process that dies ${when} the save of what it filtered: counted once`, async (t) => {
    const { world, id, destination, isSaved } = await filteringLane(2)
    destination.react = () => 'slow'
    world.send(2, fiveRecords)
    await until('an attempt is under way', () => destination.waiting === 1)
    let isReached = false
    world.dieAtSave = { isBefore, onReached: () => (isReached = true) }
    destination.react = () => 'store'
    destination.release()
    await until('it died', () => isReached)
    t.strictSame(await counted(world, id), isBefore ? all(0, 0) : all(6, 4), 'the cursor and both counts')
    await world.restart()
    await isSaved(2)
    t.strictSame(await counted(world, id), all(6, 4))
    t.equal(destination.attempts.length, isBefore ? 2 : 1)
    await world.close()
  })
}

t.test('a replay of which nothing is left', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ on_permanent_error: 'park' })
  destination.react = () => new DeliveryError('permanent', 'refused', 'Never.', { fault: 'records' })
  world.send(1, fiveRecords)
  await world.untilLane(id, 'it is parked', (lane) => lane.parked_records === 1)
  t.strictSame(await counted(world, id), all(0, 0))
  destination.react = () => 'store'
  await world.change(id, { transform: without(5) })
  const which = { ids: null, errorCode: null, reason: null }
  await world.metadata.parked.replayMany({ workspaceId: world.workspaceId, destinationId: id }, which)
  await world.service.parkedChanged(id)
  await world.untilLane(id, 'it is replayed', (lane) => lane.parked_records === 0)
  t.strictSame(await counted(world, id), all(0, 5))
  await world.close()
})
