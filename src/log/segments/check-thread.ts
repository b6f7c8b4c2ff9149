/** The thread that verifies segments, one after the other. */
import { ThreadHost } from '../../platform/thread-calls.ts'
import { checkSegment, type SegmentCheck } from './check-segment.ts'
import type { SegmentName } from './layout.ts'
import { isGone } from './sqlite-errors.ts'

export interface CheckCalls {
  /** Null when the segment is gone. */
  check(name: SegmentName): SegmentCheck | null
}
export interface CheckProgressCalls {
  /** Bytes checked since the last call. */
  progress(bytes: number): void
}

const host = new ThreadHost<string, CheckCalls, CheckProgressCalls>()

host.serve({
  check(name) {
    try {
      return checkSegment(host.data, name, (bytes) => host.tell('progress', [bytes]))
    } catch (error) {
      if (!isGone(error)) throw error
      return null
    }
  },
})
