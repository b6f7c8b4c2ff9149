/** The latency of a lane by hour: added in the saves of its owner, read by anyone of its workspace. */
import t, { type Test } from 'tap'
import { sumOf } from '../../../src/metadata/lane-hours.ts'
import { LaneOwnershipLostError, type LatencyCounts } from '../../../src/metadata/lane-state.ts'
import { rowsOf } from './database.ts'
import { newLane, newWorkspace } from './fixture.ts'

const hourMs = 3_600_000
const nine = 500_000 * hourMs

async function scene(t: Test) {
  const lane = await newLane(t)
  const { metadata, workspaceId, destinationId, row, counts } = lane
  const save = (
    hours: Record<number, Partial<LatencyCounts>>,
    { ownerEpoch = row.ownerEpoch, cursorSeq = row.cursorSeq } = {},
  ) => {
    const latency = Object.entries(hours).map(([atMs, part]) => ({
      hourMs: Number(atMs),
      counts: { records: [], delivered: [], failed: [], ...part },
    }))
    return metadata.laneStore.save([{ ...row, ownerEpoch, cursorSeq }], [{ ...counts, latency }])
  }
  const read = async (firstMs = nine, lastMs = nine + 5 * hourMs, workspace = workspaceId) =>
    Object.fromEntries(await metadata.latency({ workspaceId: workspace, destinationId }, firstMs, lastMs))
  const stored = async () => (await rowsOf(lane, 'SELECT 1 FROM lane_latency')).length
  return { ...lane, save, read, stored }
}

t.test('saves of one hour are added up, bucket by bucket', async (t) => {
  const { save, read, stored } = await scene(t)
  await save({ [nine]: { records: [3, 10, 40, 1], delivered: [3, 1] } })
  await save({ [nine]: { records: [2, 5, 3, 10], failed: [99, 1] }, [nine + hourMs]: { records: [0, 1] } })
  t.strictSame(await read(), {
    [nine]: { records: [2, 5, 3, 20, 40, 1], delivered: [3, 1], failed: [99, 1] },
    [nine + hourMs]: { records: [0, 1], delivered: [], failed: [] },
  })
  t.equal(await stored(), 2, 'one row per hour')
  t.strictSame(sumOf(Object.values(await read())).records, [0, 1, 2, 5, 3, 20, 40, 1])
})

t.test('only the hours of the range, and nothing of another workspace', async (t) => {
  const { save, read, metadata } = await scene(t)
  for (const hour of [0, 1, 2, 3]) await save({ [nine + hour * hourMs]: { records: [hour, 1] } })
  t.strictSame(Object.keys(await read(nine + hourMs, nine + 2 * hourMs)), [
    String(nine + hourMs),
    String(nine + 2 * hourMs),
  ])
  const other = await newWorkspace(metadata, 'other')
  t.strictSame(await read(nine, nine + 5 * hourMs, other), {})
})

t.test('a stale owner adds nothing, and the rows go with their destination', async (t) => {
  const { save, read, stored, metadata, workspaceId, pipeId, destinationId } = await scene(t)
  await save({ [nine]: { records: [1, 1] } }, { ownerEpoch: 5 })
  await t.rejects(save({ [nine]: { records: [1, 1] } }, { ownerEpoch: 4 }), LaneOwnershipLostError)
  t.strictSame((await read())[nine]?.records, [1, 1])
  await save({ [nine]: { records: [1, 1] } }, { ownerEpoch: 6 })
  t.strictSame((await read())[nine]?.records, [1, 2], 'the next owner adds to the counts of the first')
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId })
  t.equal(await stored(), 0)
  await save({ [nine]: { records: [1, 1] } }, { ownerEpoch: 6 })
  t.equal(await stored(), 0, 'nothing is written for a destination that is gone')
})

t.test('a deleted pipe has no rows left, and housekeeping removes old hours', async (t) => {
  const { save, read, stored, metadata, workspaceId, pipeId } = await scene(t)
  await save({ [nine]: { records: [1, 1] }, [nine + hourMs]: { records: [2, 2] } })
  await metadata.usage.prune(nine + hourMs)
  t.strictSame(Object.keys(await read()), [String(nine + hourMs)])
  await metadata.pipes.delete({ workspaceId, pipeId })
  t.equal(await stored(), 0)
})
