import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { createQuota } from '../../../src/ingest/admission.ts'
import { createBodyMemory, SharedCounters } from '../../../src/ingest/shared-counters.ts'

const noon = Date.UTC(2026, 5, 1, 12)
const limits = {
  pl_ingest_max_records_per_request: 1,
  pl_ingest_max_records_per_second: 1_000_000,
  pl_ingest_max_records_per_day: 5_000,
  pl_ingest_max_bytes_per_day: null,
  pl_delivery_max_records_per_flush: 1,
  pl_delivery_max_bytes_per_flush: 1,
  pl_delivery_max_seconds_per_flush: 1,
  bodyBytes: 1024 * 1024,
}

/** The sum that as many threads took together. */
async function takeInThreads(memories: SharedArrayBuffer[], taken: typeof limits, times: number) {
  const dist = fileURLToPath(new URL('../../../dist', import.meta.url))
  const file = new URL('./taking-thread.mjs', import.meta.url)
  const results = await Promise.all(
    memories.map(async (memory) => {
      const worker = new Worker(file, { workerData: { dist, memory, limits: taken, times, atMs: noon } })
      const [{ accepted }] = await once(worker, 'message')
      return Number(accepted)
    }),
  )
  return results.reduce((sum, accepted) => sum + accepted, 0)
}

t.test('four threads together take exactly what the day allows, of each pipe', async (t) => {
  const counters = new SharedCounters()
  const { memory } = counters
  t.equal(await takeInThreads([memory, memory, memory, memory], limits, 10_000), 3 * 5_000)
  t.equal(createBodyMemory(limits.bodyBytes, counters).heldBytes(), 0, 'and give all memory back')
  const quota = createQuota({}, noon, counters)
  await t.rejects(quota.reserve('p1', limits, { records: 1, bytes: 1 }, noon), {
    code: 'daily_quota_exceeded',
  })
})

t.test('four threads together take exactly what the bucket holds', async (t) => {
  const { memory } = new SharedCounters()
  // Their clocks are up to 6 ms apart, in any order: at 100 a second none of that may refill a whole record.
  const slow = {
    ...limits,
    pl_ingest_max_records_per_second: 100,
    pl_ingest_max_records_per_request: 4_000,
    pl_ingest_max_records_per_day: 1_000_000,
  }
  t.equal(await takeInThreads([memory, memory, memory, memory], slow, 10_000), 3 * 4_000)
})

t.test('threads with counters of their own take more (or the tests above could not fail)', async (t) => {
  const memories = [new SharedCounters().memory, new SharedCounters().memory]
  t.equal(await takeInThreads(memories, { ...limits, pl_ingest_max_records_per_day: 100 }, 1_000), 2 * 300)
})

t.test('the entry of a deleted pipe goes to a new one, empty', async (t) => {
  const counters = new SharedCounters()
  const quota = createQuota(
    { gone: { records: 5_000, bytes: 0 }, kept: { records: 5_000, bytes: 0 } },
    noon,
    counters,
  )
  const entry = counters.entry('gone')
  const body = createBodyMemory(limits.bodyBytes, counters).open({ workspaceId: 'w', pipeId: 'gone' })
  body.add(10)
  counters.giveUp('gone')
  t.equal(counters.entry('new'), entry)
  t.not(counters.entry('gone'), entry)
  t.ok(await quota.reserve('new', limits, { records: 5_000, bytes: 1 }, noon))
  t.ok(await quota.reserve('gone', limits, { records: 5_000, bytes: 1 }, noon))
  await t.rejects(quota.reserve('kept', limits, { records: 1, bytes: 1 }, noon))
  body.release()
  t.equal(createBodyMemory(limits.bodyBytes, counters).heldBytes(), 0)
})
