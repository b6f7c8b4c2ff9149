/**
 * Whether this process reaches the servers of its buffer. A node of a cluster reports it with every renewal of its lease, so that the
 * nodes can tell one that is cut off from a buffer that no node reaches (src/cluster/sharers.ts).
 *
 *   answering ──2 failures, and 2.5 s without an answer──▶ lost ──answers without a failure for 10 s──▶ answering
 *
 * Failures are counted next to the time, because a process that stood still had no answer either. The 10 s keep a connection that
 * comes and goes from moving pipes to and fro. What answers in these 10 s does not count for this node, nor against another one.
 */
import type { BufferContact } from './buffer.ts'

export const lostAfterMs = 2_500
const lostAfterFailures = 2
/** How long the buffer has to answer before a node that had lost it counts as one that reaches it. */
export const settlesForMs = 10_000

/** All times are of one monotonic clock, ms, and of when a question was sent. */
export class ContactHistory {
  #fromMs: number
  #lastMs: number
  #failures = 0
  #isLost = false
  /** Since when a lost buffer answers; null: it does not. */
  #settlingFromMs: number | null = null

  /** The buffer answers now: it was opened. */
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
