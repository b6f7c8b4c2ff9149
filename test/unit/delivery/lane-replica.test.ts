/** In sync mode (`replica.mode`) a lane sends a range when it is in the replica. */
import t from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { ReplicaBarrier } from '../../../src/log/replica-barrier.ts'
import { sharedMs } from '../../../src/platform/shared-clock.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

async function openWorld(t: { teardown(fn: () => unknown): void }) {
  const world = await LaneWorld.open()
  t.teardown(() => world.close())
  let asked = 0
  const barrier = new ReplicaBarrier(() => {
    asked += 1
  })
  world.replica = barrier
  await world.restart()
  return { world, barrier, asked: () => asked }
}

t.test('the range is saved, then in the replica, then sent', async (t) => {
  const { world, barrier, asked } = await openWorld(t)
  const { id, destination } = await world.addLane()
  barrier.storedBefore(sharedMs())
  const before = asked()
  world.send(3)
  await until('the replica is asked', () => asked() > before)
  t.match(await world.saved(id), { cursorSeq: 0, batchFirstSeq: 1, batchLastSeq: 3 })
  t.equal(destination.attempts.length, 0, 'nothing is sent before')
  barrier.storedBefore(sharedMs())
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 3])
})

t.test('a range that is sent again after a rewind has another identity, and waits again', async (t) => {
  const { world, barrier, asked } = await openWorld(t)
  const { id, destination } = await world.addLane()
  world.send(3)
  await until('the replica is asked', () => asked() > 0)
  barrier.storedBefore(sharedMs())
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  const before = asked()
  await world.service.rewind(id, { to: 'earliest' })
  await until('the replica is asked', () => asked() > before)
  await until('the range is fixed', async () => (await world.saved(id)).batchLastSeq === 3)
  t.equal(destination.attempts.length, 1, 'nothing is sent before')
  barrier.storedBefore(sharedMs())
  await until('it is sent', () => destination.attempts.length === 2)
  t.same(destination.attempts[1]!.seqs, [1, 2, 3])
})

t.test('commands, and the end of the lane, do not wait for the replica', async (t) => {
  const { world, barrier, asked } = await openWorld(t)
  const { id, destination } = await world.addLane()
  world.send(3)
  await until('the replica is asked', () => asked() > 0)
  await until('a range waits', async () => (await world.saved(id)).batchLastSeq === 3)
  await world.service.rewind(id, { to: 'earliest' })
  world.replica = null
  await world.restart()
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 3], 'without a replica it is sent')
  barrier.storedBefore(sharedMs())
  t.equal(destination.attempts.length, 1, 'the lane that ended sends nothing')
})

t.test('a replay waits if it has a number, which a new primary must not give to another', async (t) => {
  const table = { host: '127.0.0.1', port: 9, database: 'd', table: 't', exactly_once: true }
  for (const [change, waits] of [
    [{}, false],
    [{ destination_type: 'destination_database', destination_config: table }, true],
  ] as const) {
    const { world, barrier, asked } = await openWorld(t)
    const { id, destination } = await world.addLane({ ...change, on_permanent_error: 'park' })
    destination.react = () => new DeliveryError('permanent', 'no', 'Never.', { fault: 'records' })
    world.send(1)
    await until('the record is parked', async () => {
      barrier.storedBefore(sharedMs())
      return (await world.lane(id)).parked_records === 1
    })
    destination.attempts.length = 0
    destination.react = () => 'store'
    const lane = { workspaceId: world.workspaceId, destinationId: id }
    const before = asked()
    await world.metadata.parked.replayMany(lane, { ids: null, errorCode: null, reason: null })
    await world.service.parkedChanged(id)
    if (waits) {
      await until('the replica is asked', () => asked() > before)
      t.equal(destination.attempts.length, 0, 'nothing is sent before')
      barrier.storedBefore(sharedMs())
    }
    await until('it is sent', () => destination.attempts.length === 1)
    t.equal(asked() > before, waits)
  }
})

t.test('a barrier', async (t) => {
  let asked = 0
  const barrier = new ReplicaBarrier(() => {
    asked += 1
  })
  const writtenMs = sharedMs()
  const waits = [
    barrier.stored(new AbortController().signal, writtenMs),
    barrier.stored(new AbortController().signal, writtenMs),
  ]
  t.equal(asked, 1, 'one request for both')
  barrier.storedBefore(writtenMs)
  t.equal(asked, 2, 'a slot that began at that moment has not everything')
  barrier.storedBefore(writtenMs + 1)
  t.same(await Promise.all(waits), [true, true])
  t.equal(await barrier.stored(AbortSignal.abort(), writtenMs), true, 'what is there needs no wait')
  const end = new AbortController()
  const late = barrier.stored(end.signal, writtenMs + 5)
  end.abort()
  t.equal(await late, false)
  t.equal(await barrier.stored(AbortSignal.abort(), writtenMs + 5), false)
})
