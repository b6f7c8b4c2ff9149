/** A thread's processor time: it grows by work of that thread, and not by work of others. */
import t from 'tap'
import { kernelThread, processorMs } from '../../../src/platform/processor-time.ts'

const workMs = 50

/** Works until this thread has used so much more of the processor. */
function work(): void {
  const until = (processorMs(kernelThread()) ?? 0) + workMs
  while ((processorMs(kernelThread()) ?? Number.POSITIVE_INFINITY) < until) JSON.parse('[1,2,3]')
}

t.test('it is that of one thread', async (t) => {
  // The main thread of a process has the number of the process.
  t.equal(kernelThread(), process.pid)
  const before = process.cpuUsage()
  work()
  const used = process.cpuUsage(before)
  t.ok((used.user + used.system) / 1000 > workMs / 2, 'the process has used it too')
})

t.test('no thread has none', async (t) => {
  t.equal(processorMs(0), null)
  t.equal(processorMs(2 ** 31 - 1), null)
})
