/** The outcome of each message is stored with the cursor: delivered, skipped, dropped, ahead again after a rewind. */
import t from 'tap'
import { batchIdentity } from '../../../src/delivery/batch.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { permanent } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

async function runsOf(world: LaneWorld, id: string) {
  const lanes = await world.metadata.laneRecords(
    { workspaceId: world.workspaceId, pipeId: world.pipeId },
    Array.from({ length: 100 }, (_, at) => at + 1),
  )
  const lane = lanes.find(({ state }) => state.destinationId === id)
  return (lane?.runs ?? []).map(({ kind, firstSeq, lastSeq, batchLastSeq, attempts }) => ({
    ...{ kind, firstSeq, lastSeq, batchLastSeq, attempts },
  }))
}

/** The row is saved behind the lane's back: waits for it. */
async function untilSaved(world: LaneWorld, id: string, cursorSeq: number): Promise<void> {
  await until(`the cursor ${cursorSeq} is saved`, async () => (await world.saved(id)).cursorSeq === cursorSeq)
}

t.test('a batch is one run with its own identity, a failing message delays what is said of it', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = (batch) => (batch.firstSeq <= 4 && batch.lastSeq >= 4 ? permanent('bad') : 'store')
  world.send(8)
  await world.untilLane(
    id,
    'stuck',
    ({ last_error, next_attempt_ts }) => last_error !== null && next_attempt_ts !== null,
  )
  await untilSaved(world, id, 3)
  const before = await runsOf(world, id)
  t.ok(before.length > 0 && before.every(({ kind, lastSeq }) => kind === 'delivered' && lastSeq <= 3))
  for (const { firstSeq, batchLastSeq } of before) {
    const identity = batchIdentity(id, firstSeq, batchLastSeq ?? 0)
    t.ok(
      destination.attempts.some((attempt) => attempt.identity === identity),
      'as it was sent',
    )
  }
  t.ok(await world.service.skip(id))
  await world.untilLane(id, 'done', ({ lane_state }) => lane_state === 'idle')
  await untilSaved(world, id, 8)
  const [last, skipped] = await runsOf(world, id)
  t.match(last, { kind: 'delivered', firstSeq: 5, lastSeq: 8 })
  t.match(skipped, { kind: 'skipped', firstSeq: 4, lastSeq: 4, batchLastSeq: null })
  t.ok(skipped!.attempts > 1, 'how often it was tried')
  await world.close()
})

t.test('a rewind voids what is ahead again, and the next delivery says it anew', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane()
  world.send(6)
  await world.untilLane(id, 'delivered', ({ lane_state }) => lane_state === 'idle')
  await untilSaved(world, id, 6)
  const [first] = await runsOf(world, id)
  t.match(first, { kind: 'delivered', lastSeq: 6 })
  await world.change(id, { destination_status: 'blocked' })
  await world.service.rewind(id, { to: 'seq', seq: 4 })
  const kept = await runsOf(world, id)
  t.match(
    kept.at(-1),
    { firstSeq: 1, lastSeq: 4, batchLastSeq: first?.batchLastSeq },
    'its batch is still that batch',
  )
  t.ok(kept.every(({ lastSeq }) => lastSeq <= 4))
  await world.restart()
  t.strictSame(await runsOf(world, id), kept, 'saved with the cursor')
  await world.change(id, { destination_status: 'active' })
  await world.untilLane(id, 'delivered again', ({ lane_state }) => lane_state === 'idle')
  await untilSaved(world, id, 6)
  t.match((await runsOf(world, id))[0], { kind: 'delivered', firstSeq: 5, lastSeq: 6, batchLastSeq: 6 })
  await world.close()
})

t.test('what a process died before saving is not on record, and is after it was repeated', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  let isDead = false
  destination.react = () => {
    isDead = true
    return 'store'
  }
  world.atSave = () => {
    if (isDead) throw new Error('the process has died')
  }
  world.send(2)
  await until('it was stored and could not be saved', () => world.fatal.length > 0)
  world.fatal.length = 0
  t.strictSame(await runsOf(world, id), [])
  t.match(await world.saved(id), { cursorSeq: 0 })
  isDead = false
  world.atSave = () => {}
  destination.react = () => 'store'
  await world.restart()
  await untilSaved(world, id, 2)
  t.match(await runsOf(world, id), [{ kind: 'delivered', firstSeq: 1, lastSeq: 2 }])
  await world.close()
})

t.test('what retention took is on record as dropped', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane({}, world.pipeId)
  await world.change(id, { destination_status: 'blocked' })
  world.send(5)
  world.drop(3)
  await world.change(id, { destination_status: 'active' })
  await world.untilLane(id, 'done', ({ lane_state }) => lane_state === 'idle')
  await untilSaved(world, id, 5)
  t.match(await runsOf(world, id), [
    { kind: 'delivered', firstSeq: 4, lastSeq: 5 },
    { kind: 'dropped', firstSeq: 1, lastSeq: 3, attempts: 0 },
  ])
  await world.close()
})

t.test('a damaged row begins again with nothing on record', async (t) => {
  const world = await LaneWorld.open()
  const { id } = await world.addLane()
  world.send(2)
  await untilSaved(world, id, 2)
  await world.change(id, { destination_status: 'blocked' })
  world.damageRow(id, () => ({ cursorSeq: 1 }))
  await world.restart()
  t.strictSame(await runsOf(world, id), [])
  await world.close()
})
