/**
 * Records that were deleted from the log are not delivered, whatever the lane was doing with their batch. Everything else of
 * the batch is, under the same identity, and the lane's counts add up.
 */
import t from 'tap'
import { LaneWorld } from '../../support/lane-world.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'

const threeRecords = { records: 3, recordText: (n: number) => `{"n":${n}}` }
const first = `{"n":0}`
const middle = `{"n":1}`
const last = `{"n":2}`

function untilSaved(world: LaneWorld, id: string, seq: number): Promise<unknown> {
  return until(`${seq} is saved`, async () => (await world.saved(id)).cursorSeq === seq)
}

async function countsOf(world: LaneWorld, id: string) {
  const { deliveredRecords, filteredRecords } = await world.saved(id)
  return [deliveredRecords, filteredRecords]
}

t.test('deleted records are left out and counted as filtered, with and without a transform', async (t) => {
  for (const transform of [null, { filter: 'record.n < 2', map: [], mask_salt: null }]) {
    const world = await LaneWorld.open()
    const seqs = world.send(3, { ...threeRecords, notify: false })
    world.erase(middle, [seqs[0]!])
    for (const text of [first, middle, last]) world.erase(text, [seqs[1]!])
    const { id, destination } = await world.addLane({ transform })
    await untilSaved(world, id, seqs[2]!)
    const isWhole = transform === null
    const kept = (...texts: string[]) => texts.filter((text) => isWhole || text !== last).join('\n')
    t.same(
      destination.attempts.flatMap(({ bodies }) => bodies),
      [kept(first, last), '', kept(first, middle, last)],
    )
    t.same(await countsOf(world, id), isWhole ? [5, 4] : [3, 6])
    await world.close()
  }
})

t.test('a batch of which nothing is left is delivered without a request', async (t) => {
  const world = await LaneWorld.open()
  const seqs = world.send(2, { recordText: first, notify: false })
  world.erase(first, seqs)
  const { id, destination } = await world.addLane()
  await untilSaved(world, id, seqs[1]!)
  t.same(destination.attempts, [])
  t.same(await countsOf(world, id), [0, 2])
  await world.close()
})

t.test('a batch that waits for its retry is the same batch afterwards, without the records', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => transient()
  const seqs = world.send(2, threeRecords)
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  world.erase(middle, seqs)
  destination.react = () => 'store'
  await world.clock.advance(60_000)
  await untilSaved(world, id, seqs[1]!)
  const [before, after] = [destination.attempts[0]!, destination.attempts.at(-1)!]
  t.equal(after.identity, before.identity)
  t.same(after.seqs, before.seqs)
  t.same(after.bodies.join('|').includes(middle), false)
  t.same(await countsOf(world, id), [2 * before.seqs.length, before.seqs.length])
  await world.close()
})

t.test('a batch that was read before the deletion is read again before it is sent', async (t) => {
  const world = await LaneWorld.open()
  await world.limit(3, 1_000_000, 0)
  const { id, destination } = await world.addLane()
  destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
  const seqs = world.send(4, threeRecords)
  await until('the next batches are read ahead', async () => (await world.saved(id)).nextFirstSeq !== null)
  world.erase(middle, seqs.slice(1))
  destination.release()
  await untilSaved(world, id, seqs[3]!)
  const later = destination.attempts.slice(1)
  t.equal(later.length, 3)
  t.same(
    later.flatMap(({ bodies }) => bodies),
    Array(3).fill(`${first}\n${last}`),
  )
  t.same(await countsOf(world, id), [9, 3])
  await world.close()
})

t.test('a half-stored message continues with the record after those that were stored', async (t) => {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane()
  destination.react = () => 'partly'
  destination.takes = 2
  const [seq] = world.send(1, { records: 5, recordText: (n: number) => `{"n":${n}}` })
  await world.untilLane(id, 'it is half stored', ({ attempts }) => attempts === 1)
  world.erase(first, [seq!])
  world.erase('{"n":3}', [seq!])
  destination.takes = 10
  await world.clock.advance(60_000)
  await untilSaved(world, id, seq!)
  t.same(
    destination.records,
    [0, 1, 2, 4].map((index) => `${seq}:${index}`),
    'no record is lost or stored twice',
  )
  await world.close()
})

t.test('a skipped message is parked without them, and a consumer does not get them', async (t) => {
  const world = await LaneWorld.open()
  const [seq] = world.send(1, { ...threeRecords, notify: false })
  world.erase(first, [seq!])
  const push = await world.addLane()
  push.destination.react = () => transient()
  await world.untilLane(push.id, 'it failed', ({ attempts }) => attempts === 1)
  t.equal(await world.service.skip(push.id), true)
  const selector = { workspaceId: world.workspaceId, destinationId: push.id }
  const { parked } = await world.metadata.parked.list(selector, {
    limit: 9,
    after: null,
    errorCode: null,
    reason: null,
  })
  t.match(parked, [{ records_count: 3, record_index: null }])
  const found = await world.metadata.parked.get(selector, parked[0]!.parked_id)
  t.same(found?.recordTexts, [middle, last])

  const pull = await world.addLane({ destination_type: 'destination_pull', destination_config: {} })
  const result = await world.service.pull(pull.id, { waitMs: 0, afterSeq: null })
  if (result.kind !== 'message') throw new Error(`no message but ${result.kind}`)
  t.same(JSON.parse(Buffer.from(result.json).toString()).records, [{ n: 1 }, { n: 2 }])
  await world.close()
})
