/** How long to wait after so many failures in a row, before jitter: `firstMs`, then twice as long each time, up to `longestMs`. */
export function backoffMs(failures: number, firstMs: number, longestMs: number): number {
  // A larger exponent would only overflow.
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs)
}
