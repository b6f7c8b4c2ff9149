/**
 * How a lane sleeps: until its time, until it is woken, and never for longer than the level check, so that no lost
 * wake-up stalls it. What comes while it is awake is remembered and ends the next sleep before it begins.
 */
import type { Clock } from './clock.ts'

/** The longest a lane sleeps without looking for itself. */
export const levelCheckMs = 5_000

export class Sleeper {
  readonly #clock: Clock
  #endSleep: (() => void) | null = null
  #isWoken = false
  #isNoticed = false
  #isIdle = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Something is asked of the lane: it looks at once. */
  wake(): void {
    this.#isWoken = true
    this.#endSleep?.()
  }

  /** There are new messages: only a lane that has nothing else to wait for looks at once. */
  notice(): void {
    this.#isNoticed = true
    if (this.#isIdle) this.#endSleep?.()
  }

  /** From here on notices are new: the lane is about to look. */
  look(): void {
    this.#isNoticed = false
  }

  get isNoticed(): boolean {
    return this.#isNoticed
  }

  /** Until this monotonic time. */
  async until(atMs: number): Promise<void> {
    if (!this.#isWoken) await this.#sleep(atMs - this.#clock.monotonicMs())
    this.#isWoken = false
  }

  /** Until a notice comes. */
  async untilNoticed(): Promise<void> {
    if (this.#isNoticed) return
    this.#isIdle = true
    await this.until(this.#clock.monotonicMs() + levelCheckMs)
    this.#isIdle = false
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.wake(Math.min(ms, levelCheckMs), resolve)
      this.#endSleep = () => {
        cancel()
        resolve()
      }
    })
    this.#endSleep = null
  }
}
