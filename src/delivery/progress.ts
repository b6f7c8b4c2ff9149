/**
 * Decides how a lane continues after an attempt (docs/dev/contract.md#progress): whenever a destination could accept
 * some of a batch, the lane continues.
 *
 *   stored ───────────────────────────────▶ the cursor moves; 8 in a row double a size limit, up to the flush plan
 *   stored half-way ──────────────────────▶ the cursor moves past the stored messages, the others have failed
 *   rejected, one message, to be parked ──▶ parked, the cursor moves (`parking.ts`)
 *   permanent, several messages ──────────▶ bisected: the first part is tried immediately
 *   timed out, rolled back ───────────────▶ halved immediately; batches stay at that size
 *   timed out, perhaps stored, third time ▶ halved too; the first two times it is repeated under the same identity
 *   any other failure ────────────────────▶ the same range after a pause
 *
 * The class decides. The functions below it change the row by the rules of `transitions.ts`: they are pure and return a
 * new row.
 */
import assert from 'node:assert'
import type { DeliveryError } from '../destinations/driver.ts'
import type { MarkedMessage, StoredMessage } from '../log/buffer.ts'
import type { LaneError, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { AttemptOutcome } from './attempt.ts'
import { bisectAt, type FilteredRecords, filteredOf, firstHalf, recordsOf } from './batch.ts'
import type { Clock, RetryWindow } from './clock.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneLog } from './lane-log.ts'
import { asParkedFull, type RejectedRecordParking } from './parking.ts'
import { noBatch, noFailure, withRange } from './transitions.ts'

/** An attempt that timed out with an unknown outcome is repeated this often under the same identity before it is halved. */
const repeatsAfterTimeout = 2

export interface ProgressDeps {
  clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
  /** Counts the attempts. */
  attempts: AttemptCounts
}

/** The state that progress changes: that of a lane, or of a replay. */
export interface ProgressState extends Pick<DurableState, 'row' | 'change' | 'count' | 'delivered'> {
  readonly log: Pick<LaneLog, 'recovered' | 'stuck' | 'stalled'>
  stored(messages: readonly MarkedMessage[], leftOut: (message: MarkedMessage) => number): void
  dropUnsentNext(): void
}

export class Progress {
  readonly attempts: AttemptCounts
  readonly #state: ProgressState
  readonly #retry: RetryWindow
  readonly #parking: RejectedRecordParking
  readonly #deps: ProgressDeps
  /** Timeouts of the current range with an unknown outcome. */
  #timeouts = 0

  constructor(state: ProgressState, retry: RetryWindow, parking: RejectedRecordParking, deps: ProgressDeps) {
    this.attempts = deps.attempts
    this.#state = state
    this.#retry = retry
    this.#parking = parking
    this.#deps = deps
  }

  /** The current range is no longer the one that timed out. */
  forgetTimeouts(): void {
    this.#timeouts = 0
  }

  /**
   * `messages` is the attempted range; `rest` holds the messages after it that are searched for a failing one. Returns
   * the messages that the next attempt needs again, in order. The row has the range.
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

  /**
   * Parks a message that failed in a batch of its own, if the destination is configured to park. Another range is cut
   * after it.
   */
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
    this.#state.delivered(
      afterDelivered(row, { delivered: messages, rest }, spec.flush.maxRecords, now),
      left,
    )
    this.attempts.delivered += 1
    this.#timeouts = 0
    this.#retry.resetBackoff()
    if (rest.length === 0) {
      this.#retry.clear()
      if (row.attempts > 0) this.#state.log.recovered()
    }
    return [...rest]
  }

  /** Measures finished messages, and counts their records that were left out. */
  #leftOut(
    messages: readonly MarkedMessage[],
    filtered: FilteredRecords,
  ): { parked: number; filtered: number } {
    const parked = this.#parking.takeParked(messages)
    this.#state.stored(messages, ({ seq }) => (parked.get(seq) ?? 0) + (filtered.get(seq) ?? 0))
    return {
      parked: [...parked.values()].reduce((sum, records) => sum + records, 0),
      filtered: filteredOf(messages, filtered),
    }
  }

  /** Returns the messages that are not stored completely. */
  #keepStored(
    messages: readonly MarkedMessage[],
    { storedRecords, filtered }: Exclude<AttemptOutcome, { kind: 'delivered' }>,
  ): readonly MarkedMessage[] {
    if (storedRecords <= this.#state.row.recordOffset) return messages
    const now = this.#deps.clock.now()
    const { row, stored, left } = afterPartlyStored(this.#state.row, messages, storedRecords, now)
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
    const nowMs = this.#deps.clock.now()
    this.#state.count({ failedAttempts: 1 })
    this.attempts[error.class] += 1
    this.#retry.failed()
    if (error.timedOut === 'unknown') this.#timeouts += 1
    const isDivisible = messages.length > 1
    // Records that are sent one by one do not arrive faster in a smaller batch.
    const isOneByOne = storedRecords > 0 || error.storedRecords !== undefined
    if (error.class === 'permanent' && isDivisible) {
      this.#retry.resetBackoff()
      this.#state.change(afterBisect(row, messages, rest, { error, nowMs }))
    } else if (this.#isTooSlow(error) && isDivisible && !isOneByOne) {
      this.#timeouts = 0
      this.#retry.resetBackoff()
      this.#state.change(afterHalving(row, messages, { error, nowMs }))
    } else this.#retryLater(messages, { error, nowMs }, spec)
  }

  #isTooSlow({ timedOut }: DeliveryError): boolean {
    if (timedOut === 'rolled_back') return true
    return timedOut === 'unknown' && this.#timeouts > repeatsAfterTimeout
  }

  #retryLater(messages: readonly MarkedMessage[], failure: Failure, spec: LaneSpec): void {
    const { error, nowMs } = failure
    const { row, log } = this.#state
    const wasStuck = row.lastError?.class === 'permanent' && row.bisectLastSeq === null
    const { delayMs, hasStalled } = this.#retry.pause(error, spec.maxRetrySeconds, this.#deps.random)
    this.#state.change(afterPause(row, messages, failure, nowMs + delayMs))
    if (error.class === 'permanent' && !wasStuck) log.stuck(messages[0]!, error)
    if (hasStalled) log.stalled(messages[0]!, error)
  }
}

interface Failure {
  error: DeliveryError
  nowMs: number
}

/** The number of consecutive successes after which a size limit is doubled (docs/dev/contract.md#progress, c). */
const successesToGrow = 8

/**
 * The destination has stored the range. `rest` is the remainder of a run that is known to contain a failing message.
 * `maxRecords` is the flush plan's limit, up to which a size limit grows.
 */
function afterDelivered(
  row: LaneState,
  { delivered, rest }: { delivered: readonly MarkedMessage[]; rest: readonly StoredMessage[] },
  maxRecords: number,
  nowMs: number,
): LaneState {
  assert(delivered.at(-1)?.seq === row.batchLastSeq)
  const moved = { ...pastStored(row, delivered, nowMs), ...noBatch, ...grownSize(row, maxRecords) }
  if (rest.length === 0) return { ...moved, ...noFailure }
  // The failing message is in the remainder, because the whole run failed and this part did not. The remainder is
  // bisected immediately; a single message is tried separately, so that the destination's response is only about it.
  const next = rest.slice(0, rest.length === 1 ? 1 : bisectAt(rest, undefined))
  return withRange(
    { ...moved, blockingMsgId: rest[0]!.msgId, bisectLastSeq: rest.at(-1)!.seq, nextAttemptMs: null },
    next,
  )
}

function grownSize(
  { sizeLimitRecords, sizeSuccesses }: LaneState,
  maxRecords: number,
): Pick<LaneState, 'sizeLimitRecords' | 'sizeSuccesses'> {
  if (sizeLimitRecords === null) return { sizeLimitRecords, sizeSuccesses: 0 }
  if (sizeSuccesses + 1 < successesToGrow) return { sizeLimitRecords, sizeSuccesses: sizeSuccesses + 1 }
  const doubled = sizeLimitRecords * 2
  return { sizeLimitRecords: doubled >= maxRecords ? null : doubled, sizeSuccesses: 0 }
}

function pastStored(row: LaneState, stored: readonly MarkedMessage[], nowMs: number): LaneState {
  return {
    ...row,
    cursorSeq: stored.at(-1)!.seq,
    cursorMark: stored.at(-1)!.mark,
    recordOffset: 0,
    lastDeliveredMs: nowMs,
    deliveredRecords: row.deliveredRecords + recordsOf(stored),
  }
}

/**
 * A failed attempt stored the first `storedRecords` of its range. The cursor moves past completely stored messages;
 * `recordOffset` is the stored part of the next one.
 */
function afterPartlyStored(
  row: LaneState,
  messages: readonly MarkedMessage[],
  storedRecords: number,
  nowMs: number,
): { row: LaneState; stored: MarkedMessage[]; left: MarkedMessage[] } {
  assert(storedRecords > row.recordOffset && storedRecords < recordsOf(messages))
  let count = 0
  let offset = storedRecords
  while (offset >= messages[count]!.recordCount) {
    offset -= messages[count]!.recordCount
    count += 1
  }
  const stored = messages.slice(0, count)
  const left = messages.slice(count)
  const moved = count === 0 ? row : pastStored(row, stored, nowMs)
  // The destination accepts records, so a later failure is a new one.
  const { bisectLastSeq } = row
  return {
    row: withRange({ ...moved, ...noFailure, bisectLastSeq, recordOffset: offset }, left),
    stored,
    left,
  }
}

/** Several messages were rejected permanently: the search continues in their first part, immediately. */
function afterBisect(
  row: LaneState,
  failed: readonly StoredMessage[],
  rest: readonly StoredMessage[],
  failure: Failure,
): LaneState {
  assert(failed.length > 1 && failed.at(-1)!.seq === row.batchLastSeq)
  // With a hint, the part before the hinted message is tried next, and the hinted message is the last of the search.
  const { failedSeq } = failure.error
  const hinted = failed.findIndex((message) => message.seq === failedSeq)
  const searched = hinted >= 0 ? failed.slice(0, hinted + 1) : failed
  assert(rest.length === 0 || rest[0]!.seq > row.batchLastSeq!)
  return withRange(
    {
      ...withFailure(row, failed[0]!, failure),
      nextAttemptMs: null,
      bisectLastSeq: searched.at(-1)!.seq,
    },
    failed.slice(0, bisectAt(failed, failedSeq)),
  )
}

/** The range took too long: its first half is tried immediately, and batches stay at that size until it proves too small. */
function afterHalving(row: LaneState, failed: readonly StoredMessage[], failure: Failure): LaneState {
  assert(failed.length > 1 && failed.at(-1)!.seq === row.batchLastSeq)
  return withRange(
    {
      ...withFailure(row, failed[0]!, failure),
      nextAttemptMs: null,
      sizeLimitRecords: Math.floor(recordsOf(failed) / 2),
      sizeSuccesses: 0,
    },
    firstHalf(failed),
  )
}

/** Repeats the same range after a pause. An isolated message is no longer searched for. */
function afterPause(
  row: LaneState,
  failed: readonly StoredMessage[],
  failure: Failure,
  nextAttemptMs: number,
): LaneState {
  const isFound = failure.error.class === 'permanent' && failed.length === 1
  return {
    ...withFailure(row, failed[0]!, failure),
    nextAttemptMs,
    bisectLastSeq: isFound ? null : row.bisectLastSeq,
  }
}

function withFailure(row: LaneState, blocking: StoredMessage, { error, nowMs }: Failure): LaneState {
  assert(row.batchFirstSeq === blocking.seq)
  return {
    ...row,
    attempts: row.attempts + 1,
    firstFailedMs: row.firstFailedMs ?? nowMs,
    blockingMsgId: blocking.msgId,
    lastError: laneError(error, blocking.seq),
  }
}

/** A failure can name a record of a later message than the lane reports; then the error is stored without it. */
function laneError(
  { class: errorClass, code, message, fault, rejected }: DeliveryError,
  seq: number,
): LaneError {
  const { recordIndex, column, value } = rejected?.seq === seq ? rejected : {}
  return {
    class: errorClass,
    code,
    message,
    fault: fault ?? null,
    recordIndex: recordIndex ?? null,
    column: column ?? null,
    value: value ?? null,
  }
}
