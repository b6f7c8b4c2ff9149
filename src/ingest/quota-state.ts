/**
 * The use of one pipe's limits, as thirteen numbers of its entry in the shared counters: the bucket of its rate and
 * the sums of the last three UTC days. Read and written under the entry's lock.
 *
 *   0 tokens   1 refilled, ms (0: never limited so far)   2…10 three days: start ms, records, bytes; latest used first
 */
import { entryHead, type SharedCounters } from './shared-counters.ts'

/** Today, a day of a wrong clock, and one more. */
const daysKept = 3
const dayNumbers = 3
const daysAt = 2

export interface DaySums {
  records: number
  bytes: number
}

export class QuotaState {
  readonly #numbers: Float64Array
  readonly #at: number

  constructor(counters: SharedCounters, entry: number) {
    this.#numbers = counters.numbers
    this.#at = entry + entryHead
  }

  get tokens(): number {
    return this.#numbers[this.#at]!
  }

  set tokens(tokens: number) {
    this.#numbers[this.#at] = tokens
  }

  get refilledMs(): number {
    return this.#numbers[this.#at + 1]!
  }

  set refilledMs(ms: number) {
    this.#numbers[this.#at + 1] = ms
  }

  /** False until the pipe is first limited: then its bucket is full. */
  get hasBucket(): boolean {
    return this.refilledMs !== 0
  }

  /** The sums of the day that starts then, which is the latest used from now on. */
  day(startMs: number): DaySums {
    let index = this.#indexOf(startMs)
    if (index < 0) {
      index = daysKept - 1
      this.#setDay(index, startMs, 0, 0)
    }
    if (index > 0) this.#moveToFront(index)
    return this.#sums(0)
  }

  /** To the day that starts then; nothing where it is forgotten. */
  add(startMs: number, { records, bytes }: DaySums, sign: 1 | -1): void {
    const index = this.#indexOf(startMs)
    if (index < 0) return
    const sums = this.#sums(index)
    this.#setDay(index, startMs, sums.records + sign * records, sums.bytes + sign * bytes)
  }

  #indexOf(startMs: number): number {
    for (let index = 0; index < daysKept; index++)
      if (this.#numbers[this.#dayAt(index)] === startMs) return index
    return -1
  }

  #dayAt(index: number): number {
    return this.#at + daysAt + index * dayNumbers
  }

  #sums(index: number): DaySums {
    const at = this.#dayAt(index)
    return { records: this.#numbers[at + 1]!, bytes: this.#numbers[at + 2]! }
  }

  #setDay(index: number, startMs: number, records: number, bytes: number): void {
    const at = this.#dayAt(index)
    this.#numbers[at] = startMs
    this.#numbers[at + 1] = records
    this.#numbers[at + 2] = bytes
  }

  #moveToFront(index: number): void {
    const startMs = this.#numbers[this.#dayAt(index)]!
    const { records, bytes } = this.#sums(index)
    const first = this.#dayAt(0)
    this.#numbers.copyWithin(first + dayNumbers, first, this.#dayAt(index))
    this.#setDay(0, startMs, records, bytes)
  }
}
