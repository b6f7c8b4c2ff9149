/** Chooses the delivered records that are inspected, so that inspecting them costs little and never delays delivery. */
import type { Batch } from '../destinations/driver.ts'
import { records } from '../log/record-text.ts'

const recordsPerBatch = 20
const recordsPerSecond = 100
/** Larger records are not inspected: they would take longer than a millisecond. */
const maxRecordBytes = 256 * 1024

/** One sampler per destination. */
export class RecordSampler {
  #second = 0
  #leftInSecond = recordsPerSecond

  /** Starts at the newest message, which shows recent changes. */
  sample(batch: Batch, nowMs: number): Buffer[] {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) this.#leftInSecond = recordsPerSecond
    this.#second = second
    const sampled: Buffer[] = []
    let left = Math.min(recordsPerBatch, this.#leftInSecond)
    for (let at = batch.messages.length - 1; at >= 0 && left > 0; at--) {
      for (const record of records(batch.messages[at]!.body)) {
        if (left === 0) break
        left -= 1
        this.#leftInSecond -= 1
        if (record.length <= maxRecordBytes) sampled.push(record)
      }
    }
    return sampled
  }
}
