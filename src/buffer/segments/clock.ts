/**
 * The buffer's clock: how long the buffer has been open, over all its runs. It goes on where the last run stopped,
 * by the monotonic clock, so nothing that the wall clock does makes a message old.
 */
import { performance } from 'node:perf_hooks'

/** Answers whole milliseconds, never less than before. */
export function startClock(startMs: number): () => number {
  const startedAt = performance.now()
  return () => Math.floor(startMs + performance.now() - startedAt)
}
