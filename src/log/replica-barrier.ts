/**
 * Waits until what this process has written is in the replica too (`replica.mode = "sync"`). One on each thread that waits:
 *
 *   written at 41 ──stored(41)──▶ asks the replica thread ──▶ slot begun at 43 is stored ──storedBefore(43)──▶ resolves
 *
 * A slot has everything that was durable when its group began, so it counts for what was written earlier. A request that is lost with its thread delays a wait until the next interval of the replica.
 */
import { sharedMs } from '../platform/shared-clock.ts'

interface Waiting {
  writtenMs: number
  settle(isStored: boolean): void
}

export class ReplicaBarrier {
  readonly #ask: () => void
  #storedMs = Number.NEGATIVE_INFINITY
  #isAsked = false
  readonly #waiting = new Set<Waiting>()

  /** `ask` makes the replica thread store a slot without waiting for its interval. */
  constructor(ask: () => void) {
    this.#ask = ask
  }

  /** Something was written that is waited for later. */
  ask(): void {
    if (this.#isAsked) return
    this.#isAsked = true
    this.#ask()
  }

  /** Everything that was durable before this moment (`sharedMs`) is in the replica. */
  storedBefore(ms: number): void {
    this.#storedMs = Math.max(this.#storedMs, ms)
    this.#isAsked = false
    for (const waiting of this.#waiting) if (waiting.writtenMs < this.#storedMs) waiting.settle(true)
    if (this.#waiting.size > 0) this.ask()
  }

  /** True when what was durable at `writtenMs` (default: now) is in the replica; false when `signal` ends the wait. */
  async stored(signal: AbortSignal, writtenMs = sharedMs()): Promise<boolean> {
    if (writtenMs < this.#storedMs) return true
    if (signal.aborted) return false
    return await new Promise<boolean>((resolve) => {
      const end = () => waiting.settle(false)
      const waiting: Waiting = {
        writtenMs,
        settle: (isStored) => {
          this.#waiting.delete(waiting)
          signal.removeEventListener('abort', end)
          resolve(isStored)
        },
      }
      this.#waiting.add(waiting)
      signal.addEventListener('abort', end)
      this.ask()
    })
  }
}
