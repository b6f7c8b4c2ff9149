/** A thread of `shared-counters.test.ts`: takes from the quota and the memory of bodies as often as it is told. */
import { parentPort, workerData } from 'node:worker_threads'

const { dist, memory, limits, times, atMs } = workerData
const { SharedCounters } = await import(`${dist}/ingest/shared-counters.js`)
const { createQuota } = await import(`${dist}/ingest/admission.js`)
const { createBodyMemory } = await import(`${dist}/ingest/shared-counters.js`)

const counters = new SharedCounters(memory)
const quota = createQuota({}, atMs, counters)
const bodies = createBodyMemory(limits.bodyBytes, counters)
let accepted = 0
let bodiesAtOnce = 0
for (let i = 0; i < times; i++) {
  const reservation = bodies.open({ workspaceId: 'w', pipeId: 'p' })
  try {
    reservation.add(1)
    bodiesAtOnce++
    await quota.reserve(`p${i % 3}`, limits, { records: 1, bytes: 1 }, atMs - (i % 7))
    accepted++
  } catch {
    // Over the limit.
  } finally {
    if (i % 2 === 0) reservation.release()
    else queueMicrotask(() => reservation.release())
  }
}
// After the last of those releases.
await new Promise((resolve) => setImmediate(resolve))
parentPort?.postMessage({ accepted, bodiesAtOnce })
