/** The latency of a lane: what is measured, and when it is written. */
import t from 'tap'
import { LaneLatency, writeLatencyEveryMs } from '../../../src/delivery/lane-log.ts'
import { sumOf } from '../../../src/metadata/lane-hours.ts'
import type { LatencyCounts } from '../../../src/metadata/lane-state.ts'
import { DurationHistogram } from '../../../src/platform/histogram.ts'
import { LaneWorld } from '../../support/lane-world.ts'
import { transient } from '../../support/recording-driver.ts'
import { TestClock } from '../../support/test-clock.ts'
import { until } from '../../support/until.ts'

const hourMs = 3_600_000
const flush = { max_records: 100, max_bytes: 1_000_000, max_seconds: 0 }

async function stored(world: LaneWorld, id: string): Promise<LatencyCounts> {
  const lane = { workspaceId: world.workspaceId, destinationId: id }
  return sumOf([...(await world.metadata.latency(lane, 0, Number.MAX_SAFE_INTEGER)).values()])
}

const total = (counts: readonly number[]) => DurationHistogram.sum([counts]).total
const longest = (counts: readonly number[]) => DurationHistogram.sum([counts]).quantileMs(1)!

async function scene(change: Parameters<LaneWorld['addLane']>[0] = {}) {
  const world = await LaneWorld.open()
  const { id, destination } = await world.addLane({ flush, ...change })
  const isSaved = (seq: number) =>
    until(`${seq} is saved`, async () => (await world.saved(id)).cursorSeq === seq)
  const records = async () => total((await stored(world, id)).records)
  return { world, id, destination, isSaved, records }
}

t.test('records weigh, attempts count once, and a retry makes a record late', async (t) => {
  const { world, id, destination, isSaved } = await scene()
  destination.react = () => transient('connection_lost')
  world.send(2, { records: 5 })
  await world.untilLane(id, 'it failed', ({ attempts }) => attempts === 1)
  destination.react = () => 'store'
  await world.clock.advance(60_000)
  await isSaved(2)
  await until('it is written', async () => total((await stored(world, id)).records) === 10)
  const { records, delivered, failed } = await stored(world, id)
  t.equal(total(delivered), 1)
  t.equal(total(failed), 1)
  t.ok(longest(records) >= 400 && longest(records) < 70_000, `${longest(records)} ms`)
  await world.close()
})

t.test('what was gathered is written after 10 s without another record', async (t) => {
  const { world, isSaved, records } = await scene()
  world.send(1)
  await isSaved(1)
  await until('the first is written at once', async () => (await records()) === 1)
  world.send(3)
  await isSaved(4)
  t.equal(await records(), 1, 'not with every save')
  await world.clock.advance(writeLatencyEveryMs)
  await until('the others are written', async () => (await records()) === 4)
  await world.close()
})

t.test('a stop writes it, and a process that dies loses it but no record', async (t) => {
  const { world, id, destination, isSaved, records } = await scene()
  world.send(1)
  await isSaved(1)
  world.send(2)
  await isSaved(3)
  await world.restart(1_000)
  t.equal(await records(), 3)
  world.send(1)
  await isSaved(4)
  world.send(5)
  await isSaved(9)
  await world.restart()
  t.equal(await records(), 4)
  t.equal((await world.saved(id)).deliveredRecords, 9)
  t.equal(destination.stored.length, 9)
  await world.close()
})

t.test('records that are delivered again after a rewind are not measured', async (t) => {
  const { world, id, isSaved, records } = await scene()
  world.send(3)
  await isSaved(3)
  await world.clock.advance(24 * hourMs)
  await world.service.rewind(id, { to: 'earliest' })
  await until('delivered again', async () => (await world.saved(id)).deliveredRecords === 6)
  await world.restart(1_000)
  t.equal(await records(), 3)
  world.send(1)
  await isSaved(4)
  await until('a new one is', async () => (await records()) === 4)
  await world.close()
})

t.test('records that were filtered out are not measured', async (t) => {
  const transform = { filter: 'record.n >= 2', map: [], mask_salt: null }
  const { world, id, isSaved, records } = await scene({ transform })
  world.send(3, { records: 5, recordText: (n: number) => `{"n":${n}}` })
  await isSaved(3)
  await until('written', async () => (await records()) === 9)
  t.equal((await world.saved(id)).filteredRecords, 6)
  await world.close()
})

t.test('gathered by the hour in which it happened', async (t) => {
  const clock = new TestClock()
  const latency = new LaneLatency(clock)
  const startMs = clock.now()
  latency.stored([{ seq: 1, receivedMs: startMs - 100, recordCount: 2 }])
  await clock.advance(hourMs)
  latency.stored([{ seq: 2, receivedMs: startMs, recordCount: 3 }])
  latency.attempted('failed', 5)
  const hours = latency.take(false)
  t.strictSame(
    hours.map((hour) => [total(hour.counts.records), total(hour.counts.failed)]),
    [
      [2, 0],
      [3, 1],
    ],
  )
  t.equal(hours[1]!.hourMs - hours[0]!.hourMs, hourMs)
  t.equal(latency.dueInMs, Number.POSITIVE_INFINITY)
  latency.attempted('delivered', 5)
  t.strictSame(latency.take(false), [], 'not yet due')
  t.equal(latency.dueInMs, writeLatencyEveryMs)
  t.equal(latency.take(true).length, 1, 'but at the end')
  t.match(latency.seconds, { sum: 0.1 * 2 + 3_600 * 3 })
})
