/**
 * A waiting pull (contract "Pull"): at most 32 of a workspace at a time, each with its own clock.
 *
 * The wait is cut into slices: delivery cannot be told that a client has gone, and so would hand a message to nobody
 * for up to 30 s; between slices we look. A slice that ends early and empty means that delivery has ended all pulls
 * (shutdown), and so does the wait.
 */
import { ApiError } from '../contract/errors.ts'
import type { Delivery, PullAnswer } from '../delivery/delivery.ts'

export const maxWaitMs = 30_000
export const defaultWaitMs = 5_000
const maxWaiting = 32
const sliceMs = 2_000
/** Timers fire a little early or late; less than this short of its slice is not early. */
const toleranceMs = 100

export interface PullWait {
  workspaceId: string
  destinationId: string
  waitMs: number
  afterSeq: number | null
  isAborted(): boolean
}

export type LongPoll = (wait: PullWait) => Promise<PullAnswer>

/** Resolves `empty` when the time is over. Throws `pull_concurrency_exceeded`. `now`: a monotonic clock in ms. */
export function createLongPoll(
  delivery: Pick<Delivery, 'pull'>,
  now: () => number = () => performance.now(),
): LongPoll {
  const waiting = new Map<string, number>()

  return async (wait) => {
    const { workspaceId, waitMs } = wait
    // What returns at once does not wait, and is not counted.
    if (waitMs === 0) return await delivery.pull(wait.destinationId, { waitMs, afterSeq: wait.afterSeq })
    const count = waiting.get(workspaceId) ?? 0
    if (count >= maxWaiting) {
      throw new ApiError('pull_concurrency_exceeded', { headers: { 'Retry-After': '1' } })
    }
    waiting.set(workspaceId, count + 1)
    try {
      return await waitInSlices(delivery, wait, now)
    } finally {
      const left = waiting.get(workspaceId)! - 1
      if (left === 0) waiting.delete(workspaceId)
      else waiting.set(workspaceId, left)
    }
  }
}

async function waitInSlices(
  delivery: Pick<Delivery, 'pull'>,
  wait: PullWait,
  now: () => number,
): Promise<PullAnswer> {
  const deadline = now() + wait.waitMs
  for (;;) {
    const begun = now()
    const slice = Math.min(sliceMs, Math.max(0, Math.ceil(deadline - begun)))
    const answer = await delivery.pull(wait.destinationId, { waitMs: slice, afterSeq: wait.afterSeq })
    if (answer.kind !== 'empty' || wait.isAborted()) return answer
    const isEarly = now() - begun < slice - toleranceMs
    if (isEarly || now() >= deadline) return answer
  }
}
