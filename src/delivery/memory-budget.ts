/**
 * The memory of all batches under way, bounded. Lanes queue for it first come, first served, so that a greedy lane
 * cannot starve the others; a batch larger than the whole budget goes when nothing else is under way.
 *
 * A batch that is still to be cut takes no more than half of what is free (`shareBytes`): whatever a few large, stuck
 * batches hold, there is always something left for the next lane.
 */
export interface MemoryHold {
  /** The real size, once it is known, which is no more than what was asked for. */
  resize(bytes: number): void
  /** False when it is more than there is room for: nothing has changed then. */
  tryResize(bytes: number): boolean
  /** Idempotent. */
  release(): void
}

interface Waiter {
  bytes: number
  grant(hold: MemoryHold): void
}

const smallestShareBytes = 64 * 1024

export class MemoryBudget {
  readonly maxBytes: number
  #heldBytes = 0
  readonly #waiters: Waiter[] = []

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** How much a batch that is still to be cut should take at most. */
  shareBytes(): number {
    return Math.max(Math.floor((this.maxBytes - this.#heldBytes) / 2), smallestShareBytes)
  }

  /** Null when it would have to wait. */
  tryAcquire(bytes: number): MemoryHold | null {
    return this.#waiters.length === 0 && this.#fits(bytes) ? this.#hold(bytes) : null
  }

  /** Resolves with null when `signal` ended the wait. */
  acquire(bytes: number, signal: AbortSignal): Promise<MemoryHold | null> {
    const hold = signal.aborted ? null : this.tryAcquire(bytes)
    if (hold !== null || signal.aborted) return Promise.resolve(hold)
    return new Promise((resolve) => {
      const waiter: Waiter = {
        bytes,
        grant: (granted) => {
          signal.removeEventListener('abort', leave)
          resolve(granted)
        },
      }
      const leave = () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(null)
        this.#admit()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.push(waiter)
    })
  }

  #fits(bytes: number): boolean {
    return this.#heldBytes === 0 || this.#heldBytes + bytes <= this.maxBytes
  }

  #hold(asked: number): MemoryHold {
    let held = asked
    this.#heldBytes += held
    const resize = (bytes: number) => {
      this.#heldBytes += bytes - held
      held = bytes
      this.#admit()
    }
    const tryResize = (bytes: number) => {
      const others = this.#heldBytes - held
      if (bytes > held && others > 0 && others + bytes > this.maxBytes) return false
      resize(bytes)
      return true
    }
    return { resize, tryResize, release: () => resize(0) }
  }

  #admit(): void {
    while (this.#waiters.length > 0 && this.#fits(this.#waiters[0]!.bytes)) {
      const waiter = this.#waiters.shift()!
      waiter.grant(this.#hold(waiter.bytes))
    }
  }
}
