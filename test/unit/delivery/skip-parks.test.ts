/** A skip parks what it passes (docs/dev/contract.md#parked-records): in the same save as the cursor's move, or not at all. */
import { pino } from 'pino'
import t from 'tap'
import { dropOldParked } from '../../../src/daemon/housekeeping.ts'
import { ParkedSpace } from '../../../src/delivery/parking.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { refusing, transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const everything = { limit: 100, after: null, errorCode: null, reason: null }

async function parkedOf(world: LaneWorld, id: string) {
  const { parked } = await world.metadata.parked.list(
    { workspaceId: world.workspaceId, destinationId: id },
    everything,
  )
  const texts: string[][] = []
  for (const { parked_id } of parked) {
    const found = await world.metadata.parked.get(
      { workspaceId: world.workspaceId, destinationId: id },
      parked_id,
    )
    texts.push(found?.recordTexts ?? [])
  }
  return { parked, texts }
}

t.test('a skipped message is parked with its records as they were sent', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = refusing(1)
  world.send(2, { records: 2, recordText: '{"n":12345678901234567890,"x":1.10}' })
  await world.untilLane(id, 'it is stuck', (lane) => lane.last_error?.class === 'permanent')
  t.equal(await world.service.skip(id), true)
  const { parked, texts } = await parkedOf(world, id)
  t.match(parked, [
    { stream_seq: 1, record_index: null, reason: 'skipped', records_count: 2, state: 'parked' },
  ])
  t.equal(parked[0]?.error.code, 'refused')
  t.ok((parked[0]?.attempts ?? 0) > 0)
  t.strictSame(texts, [Array(2).fill('{"n":12345678901234567890,"x":1.10}')])
  const lane = await world.untilLane(id, 'the rest is delivered', ({ lane_state }) => lane_state === 'idle')
  t.match(lane, { skipped_messages: 1, parked_records: 1, delivered_records: 2 })
  await world.close()
})

t.test('of a message that is half stored the rest is parked', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => 'partly'
  destination.takes = 2
  world.send(1, { records: 5 })
  await world.untilLane(id, 'it is half stored', (lane) => lane.attempts === 1)
  t.equal(await world.service.skip(id), true)
  const { parked, texts } = await parkedOf(world, id)
  t.match(parked, [{ records_count: 3, record_index: null }])
  t.equal(texts[0]?.length, 3)
  await world.close()
})

t.test('where nothing more can be parked, nothing is skipped', async (t) => {
  const world = await LaneWorld.open()
  world.maxParkedBytes = 100
  await world.restart(0)
  const { id, destination } = await world.addLane()
  destination.react = () => transient()
  world.send(2)
  const before = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  t.equal(await world.service.skip(id), 'parked_full')
  t.match(await world.lane(id), {
    blocking_msg_id: before.blocking_msg_id,
    skipped_messages: 0,
    parked_records: 0,
  })
  await world.restart()
  t.match(await world.lane(id), { cursor_seq: 0, skipped_messages: 0 })
  world.maxParkedBytes = 1_000_000
  await world.restart(0)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
  t.equal(await world.service.skip(id), true, 'control: with room it is skipped')
  await world.close()
})

t.test('a process that dies in a skip leaves both or neither', async (t) => {
  for (const isBefore of [true, false]) {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    destination.react = () => transient()
    world.send(1)
    await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
    await until('that is saved', async () => (await world.saved(id)).attempts === 1)
    let isReached = false
    world.dieAtSave = { isBefore, onReached: () => (isReached = true) }
    void world.service.skip(id)
    await until('the save is reached', () => isReached)
    await world.restart()
    const { parked } = await parkedOf(world, id)
    t.equal(parked.length, isBefore ? 0 : 1)
    t.match(await world.saved(id), isBefore ? { cursorSeq: 0, skippedMessages: 0 } : { skippedMessages: 1 })
    await world.close()
  }
})

t.test('of several workspaces none parks more than half, also when they park at once', async (t) => {
  const taken = { bytes: 0, ofWorkspace: 0, workspaces: 1 }
  const room = new ParkedSpace({ taken: async () => taken }, 1_000)
  const release = await room.reserve('one', 900)
  t.ok(release, 'alone it may have all of it')
  t.equal(await room.reserve('one', 101), null, 'what is on its way counts')
  release?.()
  taken.workspaces = 2
  t.equal(await room.reserve('one', 501), null)
  const [first, second, third] = await Promise.all([
    room.reserve('one', 300),
    room.reserve('one', 300),
    room.reserve('two', 500),
  ])
  t.ok(first)
  t.notOk(second)
  t.ok(third)
  t.notOk(await room.reserve('two', 1))
})

t.test('what is too old is removed, counted and logged, and the lane knows', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = refusing(1)
  world.send(1, { records: 3 })
  await world.untilLane(id, 'it is stuck', (lane) => lane.last_error?.class === 'permanent')
  await world.service.skip(id)
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  const { metadata, service: delivery } = world
  await dropOldParked({ metadata, delivery }, world.clock.now() - 1, log)
  t.match(await world.lane(id), { parked_records: 1, parked_dropped_records: 0 })
  await dropOldParked({ metadata, delivery }, world.clock.now() + 1, log)
  t.match(await world.lane(id), { parked_records: 0, parked_dropped_records: 3 })
  t.match(lines, [/"records":3,"msg":"lane.parked_dropped"/])
  await world.close()
})
