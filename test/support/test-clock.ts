/** A clock that only moves when told: hours pass at once, and the wall clock jumps without them. */
import type { Clock } from '../../src/delivery/clock.ts'

interface Timer {
  at: number
  callback: () => void
}

export class TestClock implements Clock {
  #monotonicMs = 1_000_000
  #wallMs = Date.UTC(2026, 0, 15, 12)
  readonly #timers = new Set<Timer>()

  now(): number {
    return this.#wallMs
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  wake(afterMs: number, callback: () => void): () => void {
    if (afterMs <= 0) {
      const soon = setImmediate(callback)
      return () => clearImmediate(soon)
    }
    const timer = { at: this.#monotonicMs + afterMs, callback }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Ms until the next timer; Infinity when nobody waits. */
  get nextInMs(): number {
    return Math.min(...[...this.#timers].map((timer) => timer.at)) - this.#monotonicMs
  }

  /** Time passes, on both clocks, in steps of at most a second: who wakes gets to run before the next one. */
  async advance(ms: number): Promise<void> {
    // Who was just told to wait gets to say for how long.
    await new Promise((resolve) => setImmediate(resolve))
    const end = this.#monotonicMs + ms
    do {
      const step = Math.min(1_000, end - this.#monotonicMs, Math.max(0, this.nextInMs))
      this.#monotonicMs += step
      this.#wallMs += step
      for (const timer of [...this.#timers].sort((a, b) => a.at - b.at)) {
        if (timer.at <= this.#monotonicMs && this.#timers.delete(timer)) timer.callback()
      }
      for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    } while (this.#monotonicMs < end)
  }

  /** Somebody sets the wall clock. */
  jumpWall(ms: number): void {
    this.#wallMs += ms
  }
}
