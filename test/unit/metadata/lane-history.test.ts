/** The history of messages: found by any of their seqs, pruned with the buffer and beyond the limit of a lane. */
import t, { type Test } from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { union } from '../../../src/metadata/lane-records.ts'
import type { PassedMessages } from '../../../src/metadata/lane-state.ts'
import { rowsOf } from './database.ts'
import { newLane, ownerOf } from './fixture.ts'

const run = (firstSeq: number, lastSeq: number, more: Partial<PassedMessages> = {}): PassedMessages => ({
  ...{ kind: 'delivered', firstSeq, lastSeq, batchLastSeq: lastSeq, atMs: 1_000 + lastSeq, attempts: 1 },
  ...more,
})

async function scene(t: Test, startAfterSeq = 0) {
  const lane = await newLane(t, startAfterSeq)
  const { metadata, workspaceId, pipeId, row, counts } = lane
  const pass = (cursorSeq: number, ...passed: PassedMessages[]) =>
    metadata.laneStore.save([{ ...row, cursorSeq }], [{ ...counts, passed }])
  const at = async (...seqs: number[]) =>
    (await metadata.laneRecords({ workspaceId, pipeId }, seqs))[0]!.runs.map((found) => [
      found.kind,
      found.firstSeq,
      found.lastSeq,
    ])
  return { ...lane, pass, at }
}

t.test('the run of a message is found by any seq of it, and by none beside it', async (t) => {
  const { pass, at, metadata, workspaceId, pipeId } = await scene(t)
  await pass(
    19,
    run(3, 9),
    run(12, 12, { kind: 'skipped', batchLastSeq: null }),
    run(13, 19, { kind: 'dropped' }),
  )
  t.strictSame(await at(2), [])
  for (const seq of [3, 5, 9]) t.strictSame(await at(seq), [['delivered', 3, 9]])
  t.strictSame(await at(10), [], 'of another pipe')
  t.strictSame(await at(12), [['skipped', 12, 12]])
  t.strictSame(await at(5, 10, 12, 13, 14), [
    ['dropped', 13, 19],
    ['skipped', 12, 12],
    ['delivered', 3, 9],
  ])
  const [lane] = await metadata.laneRecords({ workspaceId, pipeId }, [4])
  t.match(lane, { state: { cursorSeq: 19 }, runs: [{ batchLastSeq: 9, atMs: 1_009, attempts: 1 }] })
})

t.test('a lane that began behind messages says so, and one from the earliest does not', async (t) => {
  const { at } = await scene(t, 40)
  t.strictSame(await at(40), [['before', 1, 40]])
  t.strictSame(await at(41), [])
  t.strictSame(await (await scene(t)).at(1), [])
})

t.test('a rewind voids what lies ahead of the cursor and cuts the run that it lies in', async (t) => {
  const { pass, at } = await scene(t)
  await pass(30, run(1, 10), run(11, 20), run(21, 30))
  await pass(15, run(16, 30, { kind: 'rewound' }))
  t.strictSame(await at(1, 10, 11, 15, 16, 30, 99), [
    ['delivered', 11, 15],
    ['delivered', 1, 10],
  ])
  await pass(30, run(16, 30))
  t.strictSame(await at(18), [['delivered', 16, 30]])
})

t.test('nothing of a save that fails stays, nor of a destination that is gone', async (t) => {
  const { pass, at, metadata, workspaceId, pipeId, destinationId, row, counts } = await scene(t)
  await metadata.laneStore.save([{ ...row, ownerEpoch: 5 }], [])
  await t.rejects(pass(10, run(1, 10)), { name: 'LaneOwnershipLostError' })
  t.strictSame(await at(5), [])
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId })
  await metadata.laneStore.save([{ ...row, ownerEpoch: 5 }], [{ ...counts, passed: [run(1, 10)] }])
  t.strictSame(await metadata.laneRecords({ workspaceId, pipeId }, [1, 10]), [])
})

t.test('a repaired lane has nothing on record', async (t) => {
  const { pass, at, metadata, row, spec } = await scene(t)
  await pass(10, run(1, 10))
  await metadata.laneStore.repair(row)
  t.strictSame(await at(5), [['delivered', 1, 10]], 'a row that is intact stays as it is')
  await rowsOf({ spec }, 'UPDATE lanes SET state = replace(state, \'"cursorSeq":10\', \'"cursorSeq":7\')')
  await metadata.laneStore.repair(row)
  t.strictSame(await at(5), [])
})

t.test('what is no longer kept is forgotten, in steps; what reaches into what is kept stays', async (t) => {
  const { pass, at, metadata, destinationId } = await scene(t)
  await pass(60_000, ...Array.from({ length: 6_000 }, (_, index) => run(index * 10 + 1, index * 10 + 10)))
  await metadata.laneStore.pruneHistory(ownerOf(destinationId), 50_005)
  t.strictSame(await at(50_000), [])
  t.strictSame(await at(50_005), [['delivered', 50_001, 50_010]])
  await metadata.laneStore.pruneHistory(ownerOf(destinationId), 60_000)
  t.strictSame(await at(1, 50_005, 60_000), [])
  await metadata.laneStore.pruneHistory(ownerOf(destinationId), 60_000)
})

t.test('a lane has so many runs on record and no more', async (t) => {
  const { at, metadata, spec, destinationId } = await scene(t)
  const beyond = 2_500
  await rowsOf(
    { spec },
    `INSERT INTO lane_history WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     SELECT ?, i, i, 'delivered', 1, i, 1 FROM n`,
    ...[resourceLimits.historyRowsPerLane + beyond, destinationId],
  )
  await metadata.laneStore.pruneHistory(ownerOf(destinationId), 0)
  const count = resourceLimits.historyRowsPerLane
  t.strictSame(await rowsOf({ spec }, 'SELECT count(*) AS count FROM lane_history'), [{ count }])
  t.strictSame(await at(beyond), [], 'the oldest go')
  t.strictSame(await at(beyond + 1), [['delivered', beyond + 1, beyond + 1]])
})

t.test('runs of a kind are found newest first, in steps, without those of other lanes', async (t) => {
  const { pass, metadata, workspaceId, pipeId, spec, destinationId } = await scene(t)
  const steps = resourceLimits.searchedHistoryRuns
  await rowsOf(
    { spec },
    `INSERT INTO lane_history WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     SELECT ?, i, i, CASE WHEN i IN (3, ?) THEN 'skipped' ELSE 'delivered' END, 1, i, 1 FROM n`,
    ...[steps + 10, destinationId, steps + 5],
  )
  await pass(steps + 40, run(steps + 20, steps + 39, { kind: 'dropped' }))
  const of = (kind: 'skipped' | 'dropped', beforeSeq: number) =>
    metadata.runsOfKind({ workspaceId, pipeId }, { destinationId, kind, beforeSeq })
  const first = await of('skipped', Number.MAX_SAFE_INTEGER)
  t.strictSame(first, { ranges: [[steps + 5, steps + 5]], fromSeq: 12 })
  t.strictSame(await of('skipped', first.fromSeq), { ranges: [[3, 3]], fromSeq: 1 })
  t.strictSame((await of('dropped', Number.MAX_SAFE_INTEGER)).ranges, [[steps + 20, steps + 39]])
  t.strictSame(
    union([
      {
        ranges: [
          [8, 9],
          [2, 3],
        ],
        fromSeq: 1,
      },
      {
        ranges: [
          [5, 7],
          [1, 1],
        ],
        fromSeq: 3,
      },
    ]),
    {
      ranges: [
        [5, 9],
        [3, 3],
      ],
      fromSeq: 3,
    },
    'as far as all were looked at',
  )
})
