/**
 * The delay after a number of consecutive failures, before jitter: `firstMs`, doubled with each further failure, at most
 * `longestMs`.
 */
export function backoffMs(failures: number, firstMs: number, longestMs: number): number {
  // A larger exponent would only overflow.
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs)
}
