/** The thread that applies transforms. `transform-threads.ts` starts and terminates it. */
import { kernelThread, lowerPriority } from '../../platform/processor-time.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
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
