/**
 * Schedules the write transactions of one handle: several run concurrently, and one that has conflicted too often runs
 * exclusively. The order is first come, first served: a transaction that waits to run exclusively blocks those behind it.
 */
import { endsWithin } from '../platform/deadline.ts'

/** Fewer than the handle has connections: reads find one. */
const maxConcurrent = 3

interface Waiting {
  isExclusive: boolean
  start(): void
}

export class WriteQueue {
  readonly #waiting: Waiting[] = []
  readonly #idle: (() => void)[] = []
  #running = 0
  #isExclusive = false
  #begun = 0
  /** Attempts and whole transactions that have ended. */
  #steps = 0

  /** Counts the work that `ended` waits for: a transaction with all its attempts and the pauses between them. */
  async count<T>(whole: () => Promise<T>): Promise<T> {
    this.#begun += 1
    try {
      return await whole()
    } finally {
      this.#begun -= 1
      this.#steps += 1
      if (this.#begun === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Resolves when no transaction is in progress. */
  async ended(): Promise<void> {
    if (this.#begun > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** The same, or when no attempt has ended for `silentMs`: the database does not respond. */
  async endedOrSilent(silentMs: number): Promise<void> {
    for (let before = -1; this.#begun > 0 && before !== this.#steps; ) {
      before = this.#steps
      await endsWithin(silentMs, this.ended())
    }
  }

  /** If no transaction waits, `work` begins at once. */
  async run<T>(isExclusive: boolean, work: () => Promise<T>): Promise<T> {
    let hasBegun = false
    const turn = new Promise<void>((resolve) => {
      const start = () => {
        hasBegun = true
        resolve()
      }
      this.#waiting.push({ isExclusive, start })
      this.#startNext()
    })
    if (!hasBegun) await turn
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#steps += 1
      if (isExclusive) this.#isExclusive = false
      this.#startNext()
    }
  }

  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#isExclusive || this.#running >= (next.isExclusive ? 1 : maxConcurrent)) return
      this.#waiting.shift()
      this.#isExclusive = next.isExclusive
      this.#running += 1
      next.start()
    }
  }
}
