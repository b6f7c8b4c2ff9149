/** A thread that applies transforms: `transform-threads.ts` starts and terminates it. */
import { constants, setPriority } from 'node:os'
import { kernelThread } from '../../platform/processor-time.ts'
import { ThreadHost } from '../../platform/thread-host.ts'
import {
  boardWords,
  ExceededError,
  type TransformCalls,
  type TransformReports,
  type TransformThreadData,
} from './thread-protocol.ts'
import { TransformJobs } from './transform-jobs.ts'

const host = new ThreadHost<TransformThreadData, TransformCalls, TransformReports>({
  errors: { ExceededError },
})
const board = new Int32Array(host.data.board)
Atomics.store(board, boardWords.thread, kernelThread())
if (!host.data.isShared) lowerPriority()
host.serve(new TransformJobs(host, board))

/**
 * Slow transforms come after everything else, with a tenth of its weight. With the lowest priority (19), a hundredth of it, their lanes
 * stood still on a busy machine. 0 is this thread on Linux; elsewhere it is the whole process.
 */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // A sandbox can forbid it, as the package's unit does (`@resources`). It costs the others some processor time, nothing else.
  }
}
