/**
 * Decides how a lane continues after an attempt (docs/dev/contract.md#progress): whenever a destination could accept
 * some of a batch, the lane continues.
 *
 *   stored ───────────────────────────────▶ the cursor moves; 8 in a row double a size limit, up to the flush plan
 *   stored half-way ──────────────────────▶ the cursor moves past the stored messages, the others have failed
 *   rejected, one message, to be parked ──▶ parked, the cursor moves (`parked/park.ts`)
 *   permanent, several messages ──────────▶ bisected: the first part is tried at once
 *   timed out, rolled back ───────────────▶ halved at once; batches stay at that size
 *   timed out, perhaps stored, third time ▶ the same: twice it is repeated under its own identity
 *   any other ────────────────────────────▶ the same range after a pause
 */
import type { DeliveryError } from '../destinations/driver.ts'
import type { MarkedMessage } from '../log/buffer.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import type { AttemptOutcome } from './attempt.ts'
import * as transition from './attempt-transitions.ts'
import { recordsOf } from './batch.ts'
import type { Clock } from './clock.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import { asParkedFull, type RejectedRecordParking } from './parked/park.ts'
import type { RetryWindow } from './retry.ts'
import { type FilteredRecords, filteredOf } from './transformed-batch.ts'

/** An attempt that timed out with an unknown outcome is repeated so often under its own identity, then halved. */
const repeatsAfterTimeout = 2

export interface ProgressDeps {
  clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
}

export class Progress {
  readonly attempts: AttemptCounts = { delivered: 0, transient: 0, permanent: 0 }
  readonly #state: DurableState
  readonly #retry: RetryWindow
  readonly #parking: RejectedRecordParking
  readonly #deps: ProgressDeps
  /** The timeouts with an unknown outcome of the range under way. */
  #timeouts = 0

  constructor(state: DurableState, retry: RetryWindow, parking: RejectedRecordParking, deps: ProgressDeps) {
    this.#state = state
    this.#retry = retry
    this.#parking = parking
    this.#deps = deps
  }

  /** The range under way is no longer the one that timed out. */
  forgetTimeouts(): void {
    this.#timeouts = 0
  }

  /**
   * `messages`: the range that was attempted; `rest`: what is searched for a failing message after it. Returns the
   * messages that the next attempt needs again, in order; the row has the range.
   */
  async settle(
    outcome: AttemptOutcome,
    messages: readonly MarkedMessage[],
    rest: readonly MarkedMessage[],
    spec: LaneSpec,
  ): Promise<MarkedMessage[]> {
    if (outcome.kind === 'delivered' || outcome.storedRecords >= recordsOf(messages)) {
      return this.#delivered(messages, rest, outcome, spec)
    }
    const left = this.#keepStored(messages, outcome)
    if (outcome.kind === 'failed') {
      const { error } = outcome
      const parked = await this.#park(error, left, spec)
      if (parked === 'parked') return []
      this.#failed(left, rest, parked === 'full' ? { ...outcome, error: asParkedFull(error) } : outcome, spec)
    }
    const { batchLastSeq, bisectLastSeq } = this.#state.row
    return [...left, ...rest].filter(({ seq }) => seq <= (bisectLastSeq ?? batchLastSeq!))
  }

  /** Parks a message that failed alone, if it is to be parked. Another range is cut behind it. */
  async #park(error: DeliveryError, left: readonly MarkedMessage[], spec: LaneSpec) {
    this.#state.dropUnsentNext()
    const parked = await this.#parking.parkMessage(error, left, spec)
    if (parked === 'parked') {
      this.#state.count({ failedAttempts: 1 })
      this.attempts[error.class] += 1
      this.#timeouts = 0
      this.#retry.clear()
    }
    return parked
  }

  #delivered(
    messages: readonly MarkedMessage[],
    rest: readonly MarkedMessage[],
    { filtered }: AttemptOutcome,
    spec: LaneSpec,
  ): MarkedMessage[] {
    const { row } = this.#state
    const now = this.#deps.clock.now()
    const left = this.#leftOut(messages, filtered)
    this.#state.delivered(transition.afterDelivered(row, messages, rest, spec.flush.maxRecords, now), left)
    this.attempts.delivered += 1
    this.#timeouts = 0
    this.#retry.resetBackoff()
    if (rest.length === 0) {
      this.#retry.clear()
      if (row.attempts > 0) this.#state.log.recovered()
    }
    return [...rest]
  }

  /** The records of finished messages that were left out. */
  #leftOut(
    messages: readonly MarkedMessage[],
    filtered: FilteredRecords,
  ): { parked: number; filtered: number } {
    return { parked: this.#parking.takeParked(messages), filtered: filteredOf(messages, filtered) }
  }

  /** Returns the messages that are not stored, or not whole. */
  #keepStored(
    messages: readonly MarkedMessage[],
    { storedRecords, filtered }: Exclude<AttemptOutcome, { kind: 'delivered' }>,
  ): readonly MarkedMessage[] {
    if (storedRecords <= this.#state.row.recordOffset) return messages
    const now = this.#deps.clock.now()
    const { row, stored, left } = transition.afterPartlyStored(this.#state.row, messages, storedRecords, now)
    this.#state.delivered(row, this.#leftOut(stored, filtered))
    this.#timeouts = 0
    this.#retry.clear()
    return left
  }

  #failed(
    messages: readonly MarkedMessage[],
    rest: readonly MarkedMessage[],
    { error, storedRecords }: Extract<AttemptOutcome, { kind: 'failed' }>,
    spec: LaneSpec,
  ): void {
    this.#state.dropUnsentNext()
    const { row } = this.#state
    const now = this.#deps.clock.now()
    this.#state.count({ failedAttempts: 1 })
    this.attempts[error.class] += 1
    this.#retry.failed()
    if (error.timedOut === 'unknown') this.#timeouts += 1
    const isDivisible = messages.length > 1
    // Records that are sent one by one do not arrive faster in a smaller batch.
    const isOneByOne = storedRecords > 0 || error.storedRecords !== undefined
    if (error.class === 'permanent' && isDivisible) {
      this.#retry.resetBackoff()
      this.#state.change(transition.afterBisect(row, messages, rest, error, now))
    } else if (this.#isTooSlow(error) && isDivisible && !isOneByOne) {
      this.#timeouts = 0
      this.#retry.resetBackoff()
      this.#state.change(transition.afterHalving(row, messages, error, now))
    } else this.#retryLater(messages, error, spec, now)
  }

  #isTooSlow({ timedOut }: DeliveryError): boolean {
    if (timedOut === 'rolled_back') return true
    return timedOut === 'unknown' && this.#timeouts > repeatsAfterTimeout
  }

  #retryLater(messages: readonly MarkedMessage[], error: DeliveryError, spec: LaneSpec, now: number): void {
    const { row, log } = this.#state
    const wasStuck = row.lastError?.class === 'permanent' && row.bisectLastSeq === null
    const { delayMs, hasStalled } = this.#retry.pause(error, spec.maxRetrySeconds, this.#deps.random)
    this.#state.change(transition.afterPause(row, messages, error, now + delayMs, now))
    if (error.class === 'permanent' && !wasStuck) log.stuck(messages[0]!, error)
    if (hasStalled) log.stalled(messages[0]!, error)
  }
}
