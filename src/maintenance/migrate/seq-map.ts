/**
 * Maps the seqs of a pipe to their new ones when its messages are moved. Only those that metadata names are stored:
 * there may be millions of messages. Fed with every message that was moved, in order. Pure.
 */
export interface MovedSeq {
  /** The new seq of this message; null: it was not moved. */
  at: number | null
  /** The new seq of the newest message up to it; null: there was none. */
  through: number | null
  /** The new seq of the oldest message from it on; null: there was none. */
  from: number | null
}

export class SeqMap {
  readonly #named: number[]
  readonly #moved = new Map<number, MovedSeq>()
  #known = 0
  #last: number | null = null

  /** `named`: in any order. */
  constructor(named: Iterable<number>) {
    this.#named = [...new Set(named)].sort((a, b) => a - b)
  }

  /** The next message: its seq before and after the move. */
  moved(before: number, after: number): void {
    const through = this.#last
    for (let seq = this.#named[this.#known]; seq !== undefined && seq <= before; ) {
      const isIt = seq === before
      this.#moved.set(seq, { at: isIt ? after : null, through: isIt ? after : through, from: after })
      this.#known += 1
      seq = this.#named[this.#known]
    }
    this.#last = after
  }

  /** `seq` is one of those named. */
  of(seq: number): MovedSeq {
    return this.#moved.get(seq) ?? { at: null, through: this.#last, from: null }
  }
}
