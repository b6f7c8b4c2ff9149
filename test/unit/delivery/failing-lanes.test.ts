import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent, transient } from '../../support/recording-driver.ts'

const second = 1_000

t.test('a lane that retries in vain is named once, a minute after its first failure', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ destination_name: 'warehouse' })
  destination.react = () => transient('ECONNREFUSED')
  world.send(1)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  const since = new Date(world.clock.now()).toISOString()
  await world.clock.advance(55 * second)
  t.strictSame(world.events('lane.failing'), [], 'control: not before')
  await world.clock.advance(10 * second)
  const [said] = world.events('lane.failing')
  t.match(said, {
    ...{ level: 'warn', pipe_id: world.pipeId, pipe: 'pipe1', destination_id: id, destination: 'warehouse' },
    ...{ since, class: 'transient', code: 'ECONNREFUSED', message: 'The destination says ECONNREFUSED.' },
  })
  await world.clock.advance(3_600 * second)
  t.equal(world.events('lane.failing').length, 1)

  destination.react = () => 'store'
  await world.clock.advance(300 * second)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await world.clock.advance(70 * second)
  t.match(world.events('lane.failing_ended'), [{ level: 'info', destination: 'warehouse', since }])
  t.equal(world.events('lane.failing_ended').length, 1)
  await world.close()
})

t.test('a rejected message makes a lane fail though its next attempt is minutes away', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => permanent('22P02')
  world.send(1)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(65 * second)
  t.match(world.events('lane.failing'), [
    { destination: 'http-endpoint', class: 'permanent', code: '22P02', attempts: 1 },
  ])
  await world.close()
})

t.test('a lane that takes a batch now and then and fails again is named once', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  for (let round = 0; round < 3; round += 1) {
    destination.react = () => transient()
    world.send(1)
    await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    await world.clock.advance(90 * second)
    destination.react = () => 'store'
    await world.service.retryNow(id)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await world.clock.advance(30 * second)
  }
  t.equal(world.events('lane.failing').length, 1)
  t.equal(world.events('lane.failing_ended').length, 0)
  await world.clock.advance(60 * second)
  t.equal(world.events('lane.failing_ended').length, 1)
  await world.close()
})

t.test('blocking the destination ends it, deleting it forgets it, a restart names it again', async (t) => {
  const world = await LaneWorld.open()
  const lanes = [await world.addLane(), await world.addLane()]
  for (const { destination } of lanes) destination.react = () => transient()
  world.send(1)
  for (const { id } of lanes) await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await world.clock.advance(65 * second)
  t.equal(world.events('lane.failing').length, 2)
  const [blocked, deleted] = lanes.map(({ id }) => id)
  await world.change(blocked!, { destination_status: 'blocked' })
  await world.metadata.destinations.delete({
    workspaceId: world.workspaceId,
    pipeId: world.pipeId,
    destinationId: deleted!,
  })
  await world.lanes.refresh(world.pipeId)
  await world.clock.advance(70 * second)
  t.match(world.events('lane.failing_ended'), [{ destination_id: blocked, status: 'blocked' }])
  t.equal(world.events('lane.failing_ended').length, 1)

  await world.change(blocked!, { destination_status: 'active' })
  await world.clock.advance(10 * second)
  t.equal(world.events('lane.failing').length, 3, 'it fails on from its first failure')
  await world.restart()
  await world.clock.advance(70 * second)
  t.equal(world.events('lane.failing').length, 4, 'by the new process')
  await world.close()
})
