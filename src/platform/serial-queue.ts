/** Runs tasks one at a time, in the order of their arrival. A task that fails does not stop the ones after it. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve()
  #size = 0

  /** The number of running and waiting tasks. */
  get size(): number {
    return this.#size
  }

  /** Settles with the task. */
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

  /** Resolves when all tasks that were queued before this call have ended. */
  async ended(): Promise<void> {
    await this.#last
  }
}
