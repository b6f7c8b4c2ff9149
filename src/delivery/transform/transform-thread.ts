/** A thread that applies transforms: `transform-threads.ts` starts and terminates it. */
import { constants, setPriority } from 'node:os'
import { ThreadHost } from '../../platform/thread-host.ts'
import {
  ExceededError,
  type TransformCalls,
  type TransformReports,
  type TransformThreadData,
} from './thread-protocol.ts'
import { TransformJobs } from './transform-jobs.ts'

const host = new ThreadHost<TransformThreadData, TransformCalls, TransformReports>({
  errors: { ExceededError },
})
if (!host.data.isShared) lowerPriority()
host.serve(new TransformJobs(host, new Int32Array(host.data.board)))

/**
 * Slow transforms get the processor time that nothing else needs. 0 is this thread on Linux; elsewhere it is the
 * whole process.
 */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, constants.priority.PRIORITY_LOW)
  } catch {
    // A sandbox can forbid it, as the package's unit does (`@resources`). It costs the others some processor time, nothing else.
  }
}
