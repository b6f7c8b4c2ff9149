/**
 * A destination's own `rate`: when its next request may start. Slots are evenly spaced, so no window of time holds more
 * requests than the rate allows, and there is no burst after a pause.
 */
import type { Clock } from './clock.ts'

/** Timers fire late: a request that is this little behind its slot does not move the slots after it. */
const latenessMs = 50

export class RateGate {
  readonly #clock: Clock
  #nextSlotAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The monotonic time of the next free slot; it may lie in the past. */
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

  /** The slot that was taken last was not used. */
  putBack(slotAt: number): void {
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
