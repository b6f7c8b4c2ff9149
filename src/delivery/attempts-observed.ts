/** Measures the attempts of all push lanes for `/metrics`, by destination type. */
import type { DestinationType } from '../contract/destination.ts'
import type { Batch } from '../destinations/driver.ts'
import {
  attemptSecondsBounds,
  bytesBounds,
  countBounds,
  Histogram,
  type HistogramCounts,
} from '../platform/histogram.ts'

/** The part that is sent to the main thread. */
export interface AttemptHistograms {
  type: DestinationType
  /** By outcome. Aborted attempts are not counted. */
  seconds: Record<'delivered' | 'failed', HistogramCounts>
  batchRecords: HistogramCounts
  batchBytes: HistogramCounts
}

class OfType {
  readonly delivered = new Histogram(attemptSecondsBounds)
  readonly failed = new Histogram(attemptSecondsBounds)
  readonly records = new Histogram(countBounds)
  readonly bytes = new Histogram(bytesBounds)
}

export class AttemptsObserved {
  readonly #byType = new Map<DestinationType, OfType>()

  attempted(
    type: DestinationType,
    batch: Batch,
    outcome: 'delivered' | 'failed' | 'aborted',
    tookMs: number,
  ): void {
    if (outcome === 'aborted') return
    let of = this.#byType.get(type)
    if (of === undefined) {
      of = new OfType()
      this.#byType.set(type, of)
    }
    of[outcome].observe(tookMs / 1000)
    of.records.observe(batch.recordCount)
    of.bytes.observe(batch.byteCount)
  }

  histograms(): AttemptHistograms[] {
    return [...this.#byType].map(([type, { delivered, failed, records, bytes }]) => ({
      type,
      seconds: { delivered: delivered.countsOf(0), failed: failed.countsOf(0) },
      batchRecords: records.countsOf(0),
      batchBytes: bytes.countsOf(0),
    }))
  }
}
