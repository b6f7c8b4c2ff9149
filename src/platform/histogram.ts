/**
 * How often a value fell between which bounds, counted without a lock, an allocation or a call out: each thread that
 * observes has a slot of its own in memory that others may read at any time.
 *
 *   slot   one f64 for each bound: values up to it and over the one before · values over all bounds · sum of the values
 *
 * A reader may see a value that is counted and not in the sum yet; the next look has both.
 */
export interface HistogramCounts {
  /** Ascending. */
  bounds: readonly number[]
  /** One for each bound, not cumulative, and one for what is over all of them. */
  counts: readonly number[]
  sum: number
}

/** In seconds: from a commit on a fast disk to a request that waits for a slow one. */
export const secondsBounds = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
/** In seconds, of an attempt over a network: at most a minute and some. */
export const attemptSecondsBounds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]
export const countBounds = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384]
export const bytesBounds = [1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216]

export class Histogram {
  /** To be handed to other threads. */
  readonly memory: SharedArrayBuffer
  readonly #bounds: readonly number[]
  readonly #numbers: Float64Array
  readonly #width: number
  readonly #at: number

  /** `slot`: the slot of the observing thread; without `memory` it has new slots, all zero. */
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

  observe(value: number): void {
    const bounds = this.#bounds
    let index = 0
    while (index < bounds.length && value > bounds[index]!) index += 1
    this.#numbers[this.#at + index]! += 1
    this.#numbers[this.#at + bounds.length + 1]! += value
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

/** At least one, all with the same bounds. */
export function sumOfCounts(all: readonly HistogramCounts[]): HistogramCounts {
  const { bounds, counts } = all[0]!
  return {
    bounds,
    counts: counts.map((_, index) => all.reduce((sum, one) => sum + one.counts[index]!, 0)),
    sum: all.reduce((sum, one) => sum + one.sum, 0),
  }
}
