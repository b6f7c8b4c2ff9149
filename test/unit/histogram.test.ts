import { Worker } from 'node:worker_threads'
import t from 'tap'
import { Histogram } from '../../src/platform/histogram.ts'

t.test('a value counts at the first bound that it does not exceed', async (t) => {
  const histogram = new Histogram([1, 10])
  for (const value of [0, 1, 1.5, 10, 11, 100]) histogram.observe(value)
  t.strictSame(histogram.countsOf(0), { bounds: [1, 10], counts: [2, 2, 2], sum: 123.5 })
})

t.test('each thread counts in its own slot, and all are read together', async (t) => {
  const memory = new Histogram([1], { slots: 2 }).memory
  const first = new Histogram([1], { memory, slot: 0 })
  first.observe(1)
  new Histogram([1], { memory, slot: 1 }).observe(5)
  t.equal(first.slots, 2)
  t.strictSame(first.countsOf(0), { bounds: [1], counts: [1, 0], sum: 1 })
  t.strictSame(first.countsOfAll(), { bounds: [1], counts: [1, 1], sum: 6 })
  const code = 'new Float64Array(require("worker_threads").workerData)[0] += 7'
  const worker = new Worker(code, { eval: true, workerData: memory })
  await new Promise((resolve) => worker.once('exit', resolve))
  t.strictSame(first.countsOf(0).counts, [8, 0], 'what another thread has counted')
})
