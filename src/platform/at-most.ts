/** Runs a limited number of tasks at the same time; the others wait in line: first come, first served. */
export class AtMost {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(most: number) {
    this.#free = most
  }

  /** Rejects with the signal's reason where that is aborted before its turn came; what runs ends by itself. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    // The work that ends passes its slot on: the slot is never free in between.
    else await this.#turn(signal)
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        reject(signal?.reason)
      }
      if (signal?.aborted) return reject(signal.reason)
      this.#waiting.push(enter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }
}
