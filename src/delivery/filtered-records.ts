/** How many records of each message of an attempt its destination's transform filters out: they are not counted as delivered. */
import type { StoredMessage } from '../log/buffer.ts'

export class FilteredRecords {
  readonly #counts = new Map<number, number>()

  /** Notes the records of a whole message, including those that are stored already. */
  note(seq: number, records: number): void {
    this.#counts.set(seq, records)
  }

  /** Returns the sum of these messages, and forgets them. */
  take(messages: readonly Pick<StoredMessage, 'seq'>[]): number {
    let sum = 0
    for (const { seq } of messages) {
      sum += this.#counts.get(seq) ?? 0
      this.#counts.delete(seq)
    }
    return sum
  }

  clear(): void {
    this.#counts.clear()
  }
}
