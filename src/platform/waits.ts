/** Waits that end when their time is over, or all at once when something happens. */
interface Timers {
  /** Calls back once, after so many milliseconds. Returns a function that cancels it. */
  wake(afterMs: number, callback: () => void): () => void
}

const timeouts: Timers = {
  wake(afterMs, callback) {
    const timer = setTimeout(callback, afterMs)
    return () => clearTimeout(timer)
  },
}

export class Waits {
  readonly #timers: Timers
  readonly #ends = new Set<() => void>()

  constructor(timers = timeouts) {
    this.#timers = timers
  }

  /** Infinity: until `end`, without a timer. */
  async wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = () => {
        cancel()
        this.#ends.delete(end)
        resolve()
      }
      const cancel = ms === Number.POSITIVE_INFINITY ? () => {} : this.#timers.wake(ms, end)
      this.#ends.add(end)
    })
  }

  /** Ends the present waits, in the order in which they began. */
  end(): void {
    for (const end of [...this.#ends]) end()
  }
}
