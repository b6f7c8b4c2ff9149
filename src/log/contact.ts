/**
 * Whether this process reaches the servers of its buffer. A cluster node reports this with every renewal of its lease.
 * So the nodes can distinguish one isolated node from a buffer that no node can reach (src/cluster/sharers.ts).
 *
 *   answering ──2 failures and 2.5 s without a response──▶ lost ──responses without a failure for 10 s──▶ answering
 *
 * Time alone is not enough, because a process that was stopped had no response either. The 10 s prevent a flapping
 * connection from moving pipes back and forth. Responses within these 10 s count neither for this node nor against
 * another one.
 */
import type { BufferContact } from './buffer.ts'

export const lostAfterMs = 2_500
const lostAfterFailures = 2
/** How long responses must continue before a node that had lost the buffer counts as connected again. */
export const settlesForMs = 10_000

/** All times are in ms of one monotonic clock. A response counts with the time at which its request was sent. */
export class ContactHistory {
  #fromMs: number
  #lastMs: number
  #failures = 0
  #isLost = false
  /** Time since which a lost buffer responds again; null while it does not. */
  #settlingFromMs: number | null = null

  /** Starts in contact, because the buffer has just been opened. */
  constructor(nowMs: number) {
    this.#fromMs = nowMs
    this.#lastMs = nowMs
  }

  answered(sentMs: number): void {
    this.#failures = 0
    if (this.#isLost) {
      this.#settlingFromMs ??= sentMs
      if (sentMs - this.#settlingFromMs < settlesForMs) return
      this.#isLost = false
      this.#settlingFromMs = null
      this.#fromMs = sentMs
    }
    this.#lastMs = sentMs
  }

  failed(nowMs: number): void {
    this.#failures += 1
    this.#settlingFromMs = null
    if (this.#failures >= lostAfterFailures && nowMs - this.#lastMs >= lostAfterMs) this.#isLost = true
  }

  at(nowMs: number): BufferContact {
    return {
      answeredAgoMs: Math.round(nowMs - this.#lastMs),
      answeringForMs: Math.round(this.#lastMs - this.#fromMs),
      isLost: this.#isLost,
    }
  }
}
