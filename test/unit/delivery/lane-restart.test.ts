import t from 'tap'
import { longestWaitAfterRestartMs } from '../../../src/delivery/clock.ts'
import { type LaneState, LaneStoreUnavailableError } from '../../../src/metadata/lane-state.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

t.test('a fixed range survives the process; the same bytes go under the same identity', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'hang' : 'store')
  world.send(3)
  await until('the first attempt', () => destination.attempts.length === 1)
  t.match(
    await world.saved(id),
    { cursorSeq: 0, batchFirstSeq: 1, batchLastSeq: 3 },
    'saved before the attempt',
  )
  world.send(5)
  await world.restart()
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(
    destination.attempts.map(({ seqs }) => seqs),
    [
      [1, 2, 3],
      [1, 2, 3],
      [4, 5, 6, 7, 8],
    ],
  )
  t.equal(destination.attempts[0]!.identity, destination.attempts[1]!.identity)
  t.strictSame(destination.attempts[0]!.bodies, destination.attempts[1]!.bodies)
  await world.close()
})

t.test('a lost reply sends the same batch again: twice there, never missing', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'lost' : 'store')
  world.send(2)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  world.send(1)
  await world.clock.advance(1_000)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.strictSame(destination.stored, [1, 2, 1, 2, 3])
  t.equal(destination.attempts[0]!.identity, destination.attempts[1]!.identity, 'so the destination can tell')
  await world.close()
})

t.test(
  'a process that dies between the reply and the save delivers that batch again, and nothing else',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    world.send(2)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await until('saved', async () => (await world.saved(id)).cursorSeq === 2)
    destination.react = () => 'slow'
    world.send(2)
    await until('an attempt is under way', () => destination.waiting === 1)
    // Saves from now on do not survive.
    const restarted = world.restart()
    destination.release()
    destination.react = () => 'store'
    await restarted
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, [1, 2, 3, 4, 3, 4])
    await world.close()
  },
)

t.test('failure, attempts and error survive a restart; the pause ends within 60 s', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ destination_max_retry_seconds: 100 })
  destination.react = () => transient('http_503', 3_600_000)
  world.send(1)
  const before = await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  await until('saved', async () => (await world.saved(id)).attempts === 1)
  await world.restart()
  const after = await world.lane(id)
  t.strictSame(after, { ...before, oldest_pending_age_seconds: after.oldest_pending_age_seconds })
  await world.clock.advance(longestWaitAfterRestartMs - 1_000)
  t.equal(destination.attempts.length, 1)
  await world.clock.advance(1_000)
  await world.untilLane(id, 'it was tried again', ({ attempts }) => attempts === 2)
  await world.clock.advance(41_000)
  t.equal((await world.lane(id)).lane_state, 'stalled', 'the window goes on from the first failure')
  t.equal((await world.lane(id)).first_failed_ts, before.first_failed_ts)
  await world.close()
})

t.test('an orderly end lets the attempt under way finish: nothing lost, nothing twice', async (t) => {
  for (let round = 0; round < 20; round += 1) {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    destination.react = () => 'slow'
    const sent = world.send(1 + round)
    await until('an attempt is under way', () => destination.waiting === 1)
    sent.push(...world.send(3))
    const restarted = world.restart(10_000)
    await world.clock.advance((round * 9_000) / 20)
    destination.release()
    destination.react = () => 'store'
    await restarted
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, sent)
    t.equal(destination.aborts, 0)
    await world.close()
  }
})

t.test(
  'negative control: the same end without waiting for the response delivers the batch twice',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    destination.react = () => 'slow'
    world.send(2)
    await until('an attempt is under way', () => destination.waiting === 1)
    const restarted = world.restart()
    destination.release()
    destination.react = () => 'store'
    await restarted
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(destination.stored, [1, 2, 1, 2])
    await world.close()
  },
)

t.test('an attempt that outlasts the grace is aborted, and an abort is not an attempt', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
  world.send(2)
  await until('an attempt is under way', () => destination.waiting === 1)
  const restarted = world.restart(10_000)
  await world.clock.advance(9_000)
  t.equal(destination.aborts, 0)
  await world.clock.advance(1_000)
  await restarted
  t.equal(destination.aborts, 1)
  const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  t.equal(lane.attempts, 0)
  t.equal(destination.attempts[0]!.identity, destination.attempts[1]!.identity)
  t.match(await world.metadata.usage.byPipe(world.workspaceId, 0), {
    [world.pipeId]: { failed_attempts: 0, delivered_records: 2 },
  })
  await world.close()
})

t.test(
  'a full disk makes lanes wait, not fail: nothing is attempted beyond what could be saved',
  async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    world.atSave = () => {
      throw new LaneStoreUnavailableError(new Error('database or disk is full'))
    }
    world.send(2)
    await until('the save is refused', () => world.events('lanes.save_delayed').length === 1)
    await world.clock.advance(30_000)
    t.equal(destination.attempts.length, 0)
    world.atSave = () => {}
    await world.clock.advance(5_000)
    await world.untilLane(
      id,
      'delivered within 5 s of there being room',
      ({ lane_state }) => lane_state === 'idle',
    )
    t.strictSame(destination.stored, [1, 2])
    await world.close()
  },
)

t.test(
  'any other error of the store ends delivery: a lane that cannot save must not look alive',
  async (t) => {
    const world = await LaneWorld.open()
    const { destination } = await world.addLane()
    world.atSave = () => {
      throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' })
    }
    world.send(1)
    await until('it is fatal', () => world.fatal.length > 0)
    t.match(world.fatal[0], { code: 'SQLITE_IOERR_FSYNC' })
    t.equal(destination.attempts.length, 0)
    world.atSave = () => {}
    world.fatal.length = 0
    await t.rejects(world.close(), { code: 'SQLITE_IOERR_FSYNC' })
  },
)

t.test(
  'a log that lost its end: what is accepted afterwards is delivered, what is missing is told',
  async (t) => {
    const world = await LaneWorld.open()
    const push = await world.addLane()
    const waiting = await world.addLane()
    await world.change(waiting.id, { destination_status: 'blocked' })
    world.send(8)
    await world.untilLane(push.id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await world.lanes.close(0)
    world.buffer.loseEnd(5)
    await world.restart()
    const fields = { destination_id: push.id, missing_messages: 3, first_seq: 6, last_seq: 8 }
    t.match(world.events('buffer.behind_lanes'), [fields])
    t.match(await world.lane(push.id), { lane_state: 'idle', pending_messages: 0, cursor_seq: 8 })
    world.send(2)
    await world.untilLane(push.id, 'the next ones', ({ cursor_seq }) => cursor_seq === 10)
    t.strictSame(push.destination.stored, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    await world.change(waiting.id, { destination_status: 'active' })
    await world.untilLane(waiting.id, 'all that is left', ({ lane_state }) => lane_state === 'idle')
    t.strictSame(waiting.destination.stored, [1, 2, 3, 4, 5, 9, 10])
    await world.restart(0)
    t.equal(world.events('buffer.behind_lanes').length, 1, 'not again')
    await world.close()
  },
)

const damages: Record<string, (lane: LaneState) => Partial<LaneState>> = {
  'a bit of its cursor': ({ cursorSeq }) => ({ cursorSeq: cursorSeq + 64 }),
  'its owner': () => ({ ownerEpoch: 1000 }),
  'its mark': () => ({ cursorMark: null }),
  'its generation': () => ({ generation: 1 }),
}
for (const [what, change] of Object.entries(damages)) {
  t.test(`a damaged row repeats messages, loses none, and says so: ${what}`, async (t) => {
    const world = await LaneWorld.open()
    const { id, destination } = await world.addLane()
    world.send(4)
    await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    await world.lanes.close(0)
    world.damageRow(id, change)
    destination.react = () => 'slow'
    await world.restart()
    t.match(world.events('lane.state_damaged'), [{ destination_id: id, pipe_id: world.pipeId }])
    await until('the first attempt', () => destination.waiting === 1)
    t.match(await world.lane(id), {
      ...{ cursor_seq: 0, delivered_records: 4 },
      last_error: { code: 'lane_state_damaged' },
    })
    destination.react = () => 'store'
    destination.release()
    world.send(3)
    const lane = await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
    t.strictSame([...new Set(destination.stored)], [1, 2, 3, 4, 5, 6, 7])
    t.match(lane, { cursor_seq: 7, last_error: null })
    await world.restart(0)
    t.equal(world.events('lane.state_damaged').length, 1, 'repaired')
    await world.close()
  })
}
