/**
 * Time, as delivery sees it. Waits run on the monotonic clock, so that a wall clock which jumps moves none of them;
 * the wall clock only dates what people read. A parameter, so that tests can let hours pass at once.
 */
export interface Clock {
  /** Wall clock, ms since the epoch. May jump either way. */
  now(): number
  /** Never goes back; its zero means nothing. */
  monotonicMs(): number
  /** Calls back once, after at least this long on the monotonic clock. Returns what cancels it. */
  wake(afterMs: number, callback: () => void): () => void
}

/** setTimeout takes no more than a signed 32-bit number; a longer one would fire at once. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  wake(afterMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(afterMs, 0), longestTimerMs))
    return () => clearTimeout(timer)
  },
}
