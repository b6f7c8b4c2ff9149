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
  // Also for a negative one: the clock was set back after the message was accepted.
  if (!(ms > 1)) return 0
  return Math.min(buckets - 1, Math.ceil(Math.log(ms) * perLogMs))
}
