/** The delivery attempts of a lane: two rings, so that their number has a bound and deliveries displace no failures. */
import t, { type Test } from 'tap'
import type { DeliveryAttempt } from '../../../src/contract/attempts.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import type { AttemptQuery } from '../../../src/metadata/lane-history.ts'
import { LaneOwnershipLostError } from '../../../src/metadata/lane-state.ts'
import { rowsOf } from './database.ts'
import { newLane, newWorkspace, ownerOf } from './fixture.ts'

const { deliveredAttemptsPerLane: deliveries, failedAttemptsPerLane: failures } = resourceLimits
const hourMs = 3_600_000

async function scene(t: Test) {
  const lane = await newLane(t)
  const { metadata, workspaceId, destinationId, row, counts } = lane
  const numbers = { delivered: 0, failed: 0 }
  /** In one save. */
  const save = (
    outcomes: readonly DeliveryAttempt['outcome'][],
    { atMs = Date.now(), ownerEpoch = row.ownerEpoch } = {},
  ) => {
    const attempts = outcomes.map((outcome) => {
      numbers[outcome] += 1
      const no = numbers.delivered + numbers.failed
      return { numberOfOutcome: numbers[outcome], attempt: attemptOf(no, outcome, atMs) }
    })
    return metadata.laneStore.save([{ ...row, ownerEpoch }], [{ ...counts, attempts }])
  }
  const list = async (query: Partial<AttemptQuery> = {}, workspace = workspaceId) => {
    const all = { limit: 1_000, before: null, outcome: null, sinceMs: null }
    const { texts, next } = await metadata.attempts(
      { workspaceId: workspace, destinationId },
      { ...all, ...query },
    )
    return { numbers: texts.map((text) => (JSON.parse(text) as DeliveryAttempt).attempt_no), next }
  }
  const stored = async () => (await rowsOf(lane, 'SELECT 1 FROM lane_attempts')).length
  return { ...lane, save, list, stored }
}

function attemptOf(no: number, outcome: DeliveryAttempt['outcome'], atMs: number): DeliveryAttempt {
  return {
    attempt_no: no,
    attempt_ts: new Date(atMs).toISOString(),
    outcome,
    ...{
      duration_ms: 1.5,
      batch_id: '0190b0a0-0000-5000-8000-000000000001',
      batch_attempt: 1,
      is_replay: false,
    },
    ...{ first_seq: 1, last_seq: 2, records: 3, bytes: 4, stored_records: 0, request: null, response: null },
    error: outcome === 'failed' ? { class: 'transient', code: 'http_503', message: 'no' } : null,
  }
}

t.test('the newest of each outcome are kept, however many of the other come', async (t) => {
  const { save, list, stored } = await scene(t)
  await save(['failed', 'failed'])
  await save(Array.from({ length: deliveries + 10 }, () => 'delivered' as const))
  t.strictSame((await list({ outcome: 'failed' })).numbers, [2, 1], 'deliveries displace no failures')
  const kept = (await list({ outcome: 'delivered' })).numbers
  t.strictSame([kept.length, kept[0], kept.at(-1)], [deliveries, deliveries + 12, 13])
  await save(Array.from({ length: failures + 1 }, () => 'failed' as const))
  t.equal((await list({ outcome: 'failed' })).numbers.length, failures)
  t.equal(await stored(), deliveries + failures, 'no row more than there are slots')
})

t.test('pages, outcome, time and workspace', async (t) => {
  const { save, list, metadata } = await scene(t)
  const hourAgo = Date.now() - hourMs
  await save(['delivered', 'failed'], { atMs: hourAgo })
  await save(['failed', 'delivered', 'failed'])
  t.strictSame(await list(), { numbers: [5, 4, 3, 2, 1], next: null })
  t.strictSame(await list({ limit: 2 }), { numbers: [5, 4], next: 4 })
  t.strictSame(await list({ limit: 2, before: 4 }), { numbers: [3, 2], next: 2 })
  t.strictSame(await list({ limit: 2, before: 2 }), { numbers: [1], next: null })
  t.strictSame(await list({ outcome: 'failed', limit: 2 }), { numbers: [5, 3], next: 3 })
  t.strictSame((await list({ sinceMs: hourAgo + 1 })).numbers, [5, 4, 3])
  t.strictSame((await list({ sinceMs: hourAgo, outcome: 'delivered' })).numbers, [4, 1])
  const other = await newWorkspace(metadata, 'other')
  t.strictSame(await list({}, other), { numbers: [], next: null })
})

t.test('old ones are not listed, and are removed with the old history', async (t) => {
  const { save, list, stored, metadata, destinationId } = await scene(t)
  const old = (hours: number) => ({ atMs: Date.now() - (hours + 1) * hourMs })
  await save(['delivered', 'failed'], old(resourceLimits.failedAttemptHours))
  await save(['delivered', 'failed'], old(resourceLimits.deliveredAttemptHours))
  await save(['delivered', 'failed'])
  t.strictSame((await list()).numbers, [6, 5, 4])
  t.equal(await stored(), 6)
  await metadata.laneStore.pruneHistory(ownerOf(destinationId), 0)
  t.equal(await stored(), 3)
  t.strictSame((await list()).numbers, [6, 5, 4])
})

t.test('a stale owner writes none, and they go with their destination', async (t) => {
  const { save, list, stored, metadata, workspaceId, pipeId, destinationId } = await scene(t)
  await save(['delivered'], { ownerEpoch: 5 })
  await t.rejects(save(['failed'], { ownerEpoch: 4 }), LaneOwnershipLostError)
  t.strictSame((await list()).numbers, [1])
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId })
  t.equal(await stored(), 0)
  await save(['delivered'], { ownerEpoch: 5 })
  t.equal(await stored(), 0, 'nothing is written for a destination that is gone')
})
