/**
 * Applies a destination's `rate`: determines when its next request can start. Slots are evenly spaced, so no time window
 * has more requests than the rate allows, and there is no burst after a pause.
 */
import type { Clock } from './clock.ts'

/** Timers fire late: a request that is late by at most this much does not move later slots. */
const latenessMs = 50

export class RateGate {
  readonly #clock: Clock
  #nextSlotAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Monotonic time of the next free slot, which can be in the past. */
  get nextSlotAt(): number {
    return this.#nextSlotAt
  }

  /** Takes the next slot and returns its monotonic time. */
  take(requestsPerSecond: number | null): number {
    if (requestsPerSecond === null) return 0
    const now = this.#clock.monotonicMs()
    const slotAt = this.#nextSlotAt > now - latenessMs ? this.#nextSlotAt : now
    this.#nextSlotAt = slotAt + 1000 / requestsPerSecond
    return slotAt
  }

  /** Returns the last taken slot unused. */
  returnSlot(slotAt: number): void {
    this.#nextSlotAt = Math.min(this.#nextSlotAt, slotAt)
  }

  /** Takes the next slot and waits for it; resolves early when `signal` is aborted. */
  async wait(requestsPerSecond: number | null, signal: AbortSignal): Promise<void> {
    const waitMs = this.take(requestsPerSecond) - this.#clock.monotonicMs()
    if (waitMs <= 0 || signal.aborted) return
    await new Promise<void>((resolve) => {
      const done = () => {
        cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = this.#clock.wake(waitMs, done)
      signal.addEventListener('abort', done, { once: true })
    })
  }
}
