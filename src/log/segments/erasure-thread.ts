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

/** See erasure-search.ts. */
export interface ErasureCalls {
  segments(): number[]
  findPage(firstSeq: number, fromSeq: number): FoundPage
  findRows(firstSeq: number): FoundRows | null
  removeQuarantined(): number
}

const host = new ThreadHost<SearchSpec, ErasureCalls>()
const spec = host.data
describeFatalErrors('searching the buffer in', spec.dir)

host.serve({
  segments: () => segmentsThrough(spec.dir, spec.request.throughSeq),
  findPage: (firstSeq, fromSeq) => findPage(spec, firstSeq, fromSeq),
  findRows: (firstSeq) => findRows(spec, firstSeq, pause),
  async removeQuarantined() {
    let files = 0
    for (const removed of removeQuarantined(spec)) {
      files += removed
      await pause(0)
    }
    return files
  },
})
