/**
 * Counts requests of an ingest thread for usage. It counts only rejected ones, since main hears of accepted ones from
 * the writer. The first of a turn of the event loop is reported at once, before its response; the others of a flood
 * together at the end of the turn.
 */
import type { UsageCounter } from '../../ingest/usage.ts'
import type { RejectedCount } from './protocol.ts'

export class RejectedCounts implements Pick<UsageCounter, 'accepted' | 'rejected'> {
  readonly #report: (counts: RejectedCount[]) => void
  readonly #waiting = new Map<string, RejectedCount>()
  #isScheduled = false

  constructor(report: (counts: RejectedCount[]) => void) {
    this.#report = report
  }

  accepted(): void {}

  rejected(pipeId: string, atMs: number): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => this.#reportWaiting())
      this.#report([{ pipeId, atMs, requests: 1 }])
      return
    }
    const count = this.#waiting.get(pipeId)
    if (count === undefined) this.#waiting.set(pipeId, { pipeId, atMs, requests: 1 })
    else count.requests++
  }

  #reportWaiting(): void {
    this.#isScheduled = false
    if (this.#waiting.size === 0) return
    this.#report([...this.#waiting.values()])
    this.#waiting.clear()
  }
}
