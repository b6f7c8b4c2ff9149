/**
 * Histograms in shared memory. Each observing thread has its own slot, so that counting needs no lock, no allocation and
 * no message to another thread. Any thread can read all slots at any time.
 *
 *   slot   one f64 per bound: values up to it and above the previous one · values above all bounds · sum of the values
 *
 * A reader can see a value that is counted but not yet in the sum; the next read has both.
 */
export interface HistogramCounts {
  /** Ascending. */
  bounds: readonly number[]
  /** One count per bound, not cumulative, and one for the values above all bounds. */
  counts: readonly number[]
  sum: number
}

/** Seconds, from a commit on a fast disk to a request that waits for a slow one. */
export const secondsBounds = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
/** Seconds of an attempt over a network, which takes little more than a minute at most. */
export const attemptSecondsBounds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]
/** Seconds from acceptance to the destination: from the next batch to an outage of days. */
export const latencySecondsBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600, 3_600, 86_400]
export const countBounds = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384]
export const bytesBounds = [1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216]

export class Histogram {
  /** Can be sent to other threads. */
  readonly memory: SharedArrayBuffer
  readonly #bounds: readonly number[]
  readonly #numbers: Float64Array
  readonly #width: number
  readonly #at: number

  /** `slot` is the slot of the observing thread. Without `memory` the constructor allocates new slots, all zero. */
  constructor(
    bounds: readonly number[],
    { slot = 0, slots = 1, memory }: { slot?: number; slots?: number; memory?: SharedArrayBuffer } = {},
  ) {
    this.#bounds = bounds
    this.#width = bounds.length + 2
    this.memory = memory ?? new SharedArrayBuffer(slots * this.#width * Float64Array.BYTES_PER_ELEMENT)
    this.#numbers = new Float64Array(this.memory)
    this.#at = slot * this.#width
  }

  observe(value: number, count = 1): void {
    const bounds = this.#bounds
    let index = 0
    while (index < bounds.length && value > bounds[index]!) index += 1
    this.#numbers[this.#at + index]! += count
    this.#numbers[this.#at + bounds.length + 1]! += value * count
  }

  get slots(): number {
    return this.#numbers.length / this.#width
  }

  /** The counts of one slot. */
  countsOf(slot: number): HistogramCounts {
    const from = slot * this.#width
    const counts = Array.from(this.#numbers.subarray(from, from + this.#width - 1))
    return { bounds: this.#bounds, counts, sum: this.#numbers[from + this.#width - 1]! }
  }

  /** The counts of all slots together. */
  countsOfAll(): HistogramCounts {
    return sumOfCounts(Array.from({ length: this.slots }, (_, slot) => this.countsOf(slot)))
  }
}

/** The sum of at least one histogram; all must have the same bounds. */
export function sumOfCounts(all: readonly HistogramCounts[]): HistogramCounts {
  const { bounds, counts } = all[0]!
  return {
    bounds,
    counts: counts.map((_, index) => all.reduce((sum, one) => sum + one.counts[index]!, 0)),
    sum: all.reduce((sum, one) => sum + one.sum, 0),
  }
}

/**
 * Durations counted on a logarithmic scale, so that the counts of hours, lanes and nodes can be added and a percentile
 * of the sum has a known error. All histograms have the same bounds:
 *
 *   bucket 0          up to 1 ms
 *   bucket i          above 1.2^(i-1) ms, up to 1.2^i ms
 *   bucket 111        up to 1.2^111 ms (7.1 days); longer durations are counted there too
 *
 * A percentile is the geometric middle of the bucket that contains it. Between 1 ms and 7.1 days it is therefore at
 * most a factor of √1.2 (9.6 %) away from the exact value.
 */
const ratio = 1.2
const buckets = 112
const perLogMs = 1 / Math.log(ratio)

/** JSON: bucket, count, bucket, count, …, in the order of the buckets and without empty ones. */
export type SparseCounts = readonly number[]

export class DurationHistogram {
  readonly #counts = new Float64Array(buckets)
  #total = 0

  static sum(all: Iterable<SparseCounts>): DurationHistogram {
    const sum = new DurationHistogram()
    for (const one of all) sum.add(one)
    return sum
  }

  observe(ms: number, count = 1): void {
    this.#counts[bucketOf(ms)]! += count
    this.#total += count
  }

  add(sparse: SparseCounts): void {
    for (let index = 0; index + 1 < sparse.length; index += 2) {
      const count = sparse[index + 1]!
      this.#counts[sparse[index]!]! += count
      this.#total += count
    }
  }

  get total(): number {
    return this.#total
  }

  sparse(): number[] {
    const sparse: number[] = []
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      const count = this.#counts[bucket]!
      if (count > 0) sparse.push(bucket, count)
    }
    return sparse
  }

  /** The duration in ms that this share (0 to 1) of the counted ones does not exceed. Null: there are none. */
  quantileMs(share: number): number | null {
    if (this.#total === 0) return null
    const rank = Math.max(1, Math.ceil(share * this.#total))
    let seen = 0
    let bucket = -1
    while (seen < rank) {
      bucket += 1
      seen += this.#counts[bucket]!
    }
    return bucket === 0 ? 1 : ratio ** (bucket - 0.5)
  }
}

function bucketOf(ms: number): number {
  // A duration is negative when the clock was set back after the message was accepted.
  if (!(ms > 1)) return 0
  return Math.min(buckets - 1, Math.ceil(Math.log(ms) * perLogMs))
}
