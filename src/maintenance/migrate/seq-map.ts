/**
 * Maps old seqs of a pipe to new ones when its messages are moved. There can be millions of messages, so only the
 * seqs that metadata contains are stored. The map is fed with every moved message, in order. Pure.
 */
export interface MovedSeq {
  /** The new seq of this message. Null: it was not moved. */
  at: number | null
  /** The new seq of the newest message at or before it. Null: there was none. */
  through: number | null
  /** The new seq of the oldest message at or after it. Null: there was none. */
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

  /** Adds the next message: its seq before and after the move. */
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

  /** `seq` must be one of those passed to the constructor. */
  of(seq: number): MovedSeq {
    return this.#moved.get(seq) ?? { at: null, through: this.#last, from: null }
  }
}
