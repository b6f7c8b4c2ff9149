/** Pulls that found no message: each waits until it is worth looking again, first come, first woken. */
import type { Clock } from './clock.ts'

export class WaitingPulls {
  readonly #clock: Clock
  readonly #waiting = new Set<() => void>()
  #changes = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Grows with every `wakeAll`: who looked meanwhile looks again instead of waiting. */
  get changes(): number {
    return this.#changes
  }

  wakeAll(): void {
    this.#changes += 1
    for (const look of [...this.#waiting]) look()
  }

  /** Resolves at the next `wakeAll`, or after `longestMs`. */
  wait(longestMs: number): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        cancel()
        this.#waiting.delete(look)
        resolve()
      }
      const cancel = this.#clock.wake(Math.max(0, longestMs), look)
      this.#waiting.add(look)
    })
  }
}
