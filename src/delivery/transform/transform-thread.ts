/** The thread that applies transforms. `transform-threads.ts` starts and terminates it. */
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
 * Gives slow transforms a tenth of the normal weight. With the lowest priority (19), which is a hundredth, their lanes
 * made no progress on a busy machine. Priority 0 is the thread on Linux; on other systems it is the whole process.
 */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // A sandbox can forbid this, as the packaged unit does (`@resources`). Then it only costs other work some processor
    // time.
  }
}
