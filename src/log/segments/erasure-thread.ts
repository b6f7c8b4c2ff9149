/** The thread that searches the log for records to delete: `open-erasure.ts` starts it. The writer rewrites the segments. */
import { setTimeout as pause } from 'node:timers/promises'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import {
  type FoundPage,
  type FoundRows,
  findPage,
  findRows,
  removeQuarantined,
  type SearchSpec,
  segmentsThrough,
} from './erasure-search.ts'
import { listSegments } from './layout.ts'
import { FeedChannel } from './reader.ts'
import { isUnusable } from './sqlite-errors.ts'

/** See erasure-search.ts. */
export interface ErasureCalls {
  segments(): number[]
  findPage(firstSeq: number, fromSeq: number): FoundPage
  /** `damaged`: the writer was told, and salvages it. */
  findRows(firstSeq: number, fromSeq: number): FoundRows | 'gone' | 'damaged'
  removeQuarantined(): number
}

const host = new ThreadHost<SearchSpec, ErasureCalls>()
const spec = host.data
const maxPauseMs = 200
const feed = new FeedChannel(spec.channel)
describeFatalErrors('searching the buffer in', spec.dir)

/** A pause as long as the work: a search uses at most half of a core. */
async function atHalfSpeed<T>(work: () => T): Promise<T> {
  const beganMs = performance.now()
  const result = work()
  await pause(Math.min(maxPauseMs, performance.now() - beganMs))
  return result
}

function reportDamage(firstSeq: number, error: unknown): void {
  const name = listSegments(spec.dir).find((one) => one.firstSeq === firstSeq)
  if (name !== undefined) feed.post({ kind: 'segment_damaged', ...name, error: String(error) })
}

host.serve({
  segments: () => segmentsThrough(spec.dir, spec.request.throughSeq),
  findPage: (firstSeq, fromSeq) => atHalfSpeed(() => findPage(spec, firstSeq, fromSeq)),
  async findRows(firstSeq, fromSeq) {
    try {
      return (await atHalfSpeed(() => findRows(spec, firstSeq, fromSeq))) ?? 'gone'
    } catch (error) {
      if (!isUnusable(error)) throw error
      reportDamage(firstSeq, error)
      return 'damaged'
    }
  },
  async removeQuarantined() {
    let files = 0
    for (const removed of removeQuarantined(spec)) {
      files += removed
      await pause(0)
    }
    return files
  },
})
