/** A buffer that is elsewhere may not answer for a while: lanes wait, and go on where they were. */
import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { until } from '../../support/until.ts'

t.test('lanes wait for a buffer that does not answer, and go on in order', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(2, 1_000_000, 0)
  const { id, destination } = await world.addLane()
  const { id: other } = await world.addLane()
  const first = world.send(2)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.untilLane(other, 'delivered', ({ lane_state }) => lane_state === 'idle')
  world.buffer.isUnavailable = true
  const later = world.send(5)
  await until('both lanes have asked', () => world.buffer.refused >= 2)
  await t.rejects(world.service.lanes([id]), { name: 'BufferReadUnavailableError' }, 'who asks does not wait')
  for (let second = 0; second < 60; second += 1) await world.clock.advance(1_000)
  t.same(world.fatal, [])
  t.equal(destination.stored.length, 2)
  t.equal(world.events('lanes.read_delayed').length, 1, 'one line for all of it')
  world.buffer.isUnavailable = false
  await world.clock.advance(2_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.untilLane(other, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.same(destination.stored, [...first, ...later])
  t.equal(world.events('lanes.read_resumed').length, 1)
  t.ok(Number(world.events('lanes.read_resumed')[0]?.waited_ms) >= 60_000)
  await world.close()
})

t.test('a consumer of a pull lane is told to come again', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  world.send(1)
  world.buffer.isUnavailable = true
  const pulled = world.service.pull(id, { waitMs: 0, afterSeq: null })
  pulled.catch(() => {})
  await until('it was asked', () => world.buffer.refused > 0)
  for (let second = 0; second < 11; second += 1) await world.clock.advance(1_000)
  await t.rejects(pulled, { name: 'StorageUnavailableError' })
  world.buffer.isUnavailable = false
  await world.clock.advance(2_000)
  t.match(await world.service.pull(id, { waitMs: 0, afterSeq: null }), { kind: 'message' })
  t.same(world.fatal, [])
  await world.close()
})

t.test('the end of the process does not wait for the buffer', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  const { id: pull } = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  world.send(1)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  world.buffer.isUnavailable = true
  const [seq] = world.send(1)
  world.service.pull(pull, { waitMs: 0, afterSeq: null }).catch(() => {})
  await until('they wait', () => world.buffer.refused >= 2)
  await world.lanes.close(0)
  t.same(world.fatal, [])
  world.buffer.isUnavailable = false
  await world.restart(0)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(destination.stored.at(-1), seq)
  await world.close()
})

t.test('a buffer that fails otherwise still ends the thread', async (t) => {
  const world = await LaneWorld.open()
  await world.addLane()
  world.buffer.beforeRead = () => {
    throw new Error('the disk is broken')
  }
  world.send(1)
  await until('it is fatal', () => world.fatal.length > 0)
  t.match(world.fatal[0], { message: 'the disk is broken' })
  t.equal(world.events('lanes.read_delayed').length, 0)
  await t.rejects(world.close(), { message: 'the disk is broken' })
})
