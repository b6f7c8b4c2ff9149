/** Runs pieces of work one after the other, in the order in which they came. One that fails does not keep those behind it. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve()
  #size = 0

  /** The number of pieces that run or wait. */
  get size(): number {
    return this.#size
  }

  /** Settles as the work does. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    this.#size += 1
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    try {
      return await done
    } finally {
      this.#size -= 1
    }
  }

  /** Resolves when everything that has come so far has ended. */
  async ended(): Promise<void> {
    await this.#last
  }
}
