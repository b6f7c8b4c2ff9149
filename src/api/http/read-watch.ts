/**
 * A client that does not read its response, or only a byte now and then, would make the process hold it for as long
 * as the client likes. Every `readWindowMs` it must have read at least `readWindowBytes` more.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'

const { readWindowMs, readWindowBytes } = resourceLimits

/** `taken`: bytes handed to the socket so far. Calls `tooSlow` once. The returned function ends the watch. */
export function watchReading(
  taken: () => number,
  tooSlow: () => void,
  windowMs: number = readWindowMs,
): () => void {
  let before = taken()
  const timer = setInterval(() => {
    const now = taken()
    if (now - before >= readWindowBytes) {
      before = now
      return
    }
    clearInterval(timer)
    tooSlow()
  }, windowMs)
  timer.unref()
  return () => clearInterval(timer)
}
