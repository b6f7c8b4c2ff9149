/**
 * Every change of a lane's durable state, one function each. The functions are pure and assert their preconditions. They
 * return a new row, because a saved row must not change. `progress.ts` has the changes after an attempt.
 */
import assert from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import type { Cursor, MarkedMessage, StoredMessage } from '../log/buffer.ts'
import { erasedText } from '../metadata/erased-texts.ts'
import {
  asNextRanges,
  fixedThrough,
  type LaneError,
  type LaneSpec,
  type LaneState,
  type LaneStateDamagedError,
  newLaneState,
  nextRanges,
  type PassedMessages,
  type SeqRange,
} from '../metadata/lane-state.ts'

export const noFailure = {
  bisectLastSeq: null,
  attempts: 0,
  firstFailedMs: null,
  nextAttemptMs: null,
  blockingMsgId: null,
  lastError: null,
}
export const noBatch = { batchFirstSeq: null, batchLastSeq: null }
const noLease = { leaseMsgId: null, leaseUntilMs: null }

/**
 * The stored row does not say where the lane was: it restarts at the earliest kept message, so that messages are
 * repeated and none is lost. Counters are kept; `lastError` stays until a batch is delivered.
 */
export function afterStateDamaged(
  { destinationId, counters }: LaneStateDamagedError,
  nowMs: number,
): LaneState {
  const message =
    'The stored position of this lane was damaged: it delivers again from the earliest kept message.'
  return {
    ...newLaneState(destinationId),
    ...counters,
    generation: nextGeneration(0, nowMs),
    lastError: ownError('lane_state_damaged', message),
  }
}

/** The text of the error can quote a record that was deleted. Class and code stay. */
export function withoutErrorText(row: LaneState): LaneState {
  if (row.lastError === null) return row
  return { ...row, lastError: { ...row.lastError, message: erasedText, column: null, value: null } }
}

/** Fixes the range: every attempt from now on sends exactly these messages. */
export function withRange(row: LaneState, messages: readonly StoredMessage[]): LaneState {
  assert(messages.length > 0 && messages[0]!.seq > row.cursorSeq)
  return { ...row, batchFirstSeq: messages[0]!.seq, batchLastSeq: messages.at(-1)!.seq }
}

/** Fixes one more range: once saved, it can be sent as soon as those before it are stored. */
export function withNext(row: LaneState, messages: readonly StoredMessage[]): LaneState {
  assert(messages.length > 0 && messages[0]!.seq > Math.max(fixedThrough(row), row.cursorSeq))
  return { ...row, ...asNextRanges([...nextRanges(row), [messages[0]!.seq, messages.at(-1)!.seq]]) }
}

/**
 * Ranges after this message were not sent, or can be cut again by the contract: they are decided when their turn comes.
 */
export function withoutNext(row: LaneState, afterSeq = 0): LaneState {
  const ranges = nextRanges(row)
  const kept = ranges.filter(([, lastSeq]) => lastSeq <= afterSeq)
  return kept.length === ranges.length ? row : { ...row, ...asNextRanges(kept) }
}

/** Everything before the next range is done: it becomes the current range. */
export function withNextAsRange(row: LaneState): LaneState {
  assert(row.batchLastSeq === null && row.bisectLastSeq === null && row.nextFirstSeq !== null)
  const [[batchFirstSeq, batchLastSeq], ...later] = nextRanges(row) as [SeqRange, ...SeqRange[]]
  return { ...row, batchFirstSeq, batchLastSeq, ...asNextRanges(later) }
}

/**
 * A version that does not know `laterRanges` keeps them in the rows that it saves, and delivers beyond them. Those that
 * do not follow the others are dropped.
 */
export function afterOtherVersion(row: LaneState): LaneState {
  if (row.laterRanges === null) return row
  let throughSeq = Math.max(row.cursorSeq, row.batchLastSeq ?? 0, row.bisectLastSeq ?? 0)
  const following: SeqRange[] = []
  for (const range of nextRanges(row)) {
    if (range[0] <= throughSeq) continue
    following.push(range)
    throughSeq = range[1]
  }
  return { ...row, ...asNextRanges(following) }
}

/** The range can no longer be read as it was, so another one is cut. */
export function withoutRange(row: LaneState): LaneState {
  return { ...row, ...noBatch, bisectLastSeq: null }
}

/**
 * Ends the pause. A failed range of several messages is cut again by the current limits; another range has another
 * identity (docs/dev/contract.md#progress, e).
 */
export function afterRetryNow(row: LaneState): LaneState {
  const isSingle = row.batchFirstSeq === row.batchLastSeq && row.bisectLastSeq === null
  return { ...row, ...(isSingle ? {} : { ...noBatch, bisectLastSeq: null }), nextAttemptMs: null }
}

/** The limits changed: the range is cut again, and the size that works is searched again. */
function afterChangedLimits(row: LaneState): LaneState {
  return { ...afterRetryNow(withoutNext(row)), sizeLimitRecords: null, sizeSuccesses: 0 }
}

/** The destination changed: the stored part of a half-stored message is at the old one. */
function afterChangedDestination(row: LaneState): LaneState {
  return { ...afterChangedLimits(row), recordOffset: 0 }
}

/** True when only the name differs, which is for people. */
export function isOnlyRenamed(before: LaneSpec, after: LaneSpec): boolean {
  const { name, revision } = after
  return before.name !== name && isDeepStrictEqual({ ...before, name, revision }, after)
}

/** A range is kept only while destination and limits are the same: unblocking a destination sends the same batch again. */
export function afterReconfigured(row: LaneState, before: LaneSpec, after: LaneSpec): LaneState {
  if (targetOf(before) !== targetOf(after)) return afterChangedDestination(row)
  // The stored part of a message stays stored: the transform applies only to undelivered records.
  const isSame = (key: 'flush' | 'transform') => JSON.stringify(before[key]) === JSON.stringify(after[key])
  if (!isSame('flush') || !isSame('transform')) return afterChangedLimits(row)
  return row.nextAttemptMs === null ? row : { ...row, nextAttemptMs: null }
}

function targetOf({ type, config, columns, timestampField }: LaneSpec): string {
  return JSON.stringify([type, config, columns, timestampField])
}

/** An operator skipped this message. */
export function afterSkip(row: LaneState, message: MarkedMessage): LaneState {
  assert(message.msgId === row.blockingMsgId)
  return {
    ...movedTo(row, message),
    skippedMessages: row.skippedMessages + 1,
  }
}

/** The destination rejects this message permanently, and it is parked. */
export function afterParked(row: LaneState, message: MarkedMessage): LaneState {
  assert(message.seq > row.cursorSeq)
  return movedTo(row, message)
}

export function afterRewind(row: LaneState, to: Cursor, nowMs: number): LaneState {
  assert(to.seq <= row.cursorSeq)
  return {
    ...withoutNext(movedTo(row, to)),
    generation: nextGeneration(row.generation, nowMs),
    rewoundFromSeq: Math.max(row.rewoundFromSeq ?? 0, row.cursorSeq),
  }
}

/** Greater than every earlier generation, and different from those of other copies of this data directory. */
function nextGeneration(generation: number, nowMs: number): number {
  return Math.max(generation + 1, nowMs)
}

/** Messages before `to` are lost undelivered: retention dropped them, or they were damaged. */
export function afterDropped(row: LaneState, to: Cursor, dropped: number): LaneState {
  assert(to.seq >= row.cursorSeq && dropped >= 0)
  return { ...movedTo(row, to), droppedMessages: row.droppedMessages + dropped }
}

/**
 * Something other than a delivery moved the cursor, so the current range is dropped. Of the next ranges, those that are
 * still complete are kept.
 */
function movedTo(row: LaneState, { seq, mark }: Cursor): LaneState {
  const nothingUnderWay = { ...noBatch, ...noFailure, ...noLease, recordOffset: 0 }
  const next = asNextRanges(nextRanges(row).filter(([firstSeq]) => firstSeq > seq))
  return { ...row, ...next, ...nothingUnderWay, cursorSeq: seq, cursorMark: mark }
}

/** A pull consumer has everything up to `to`. */
export function afterPulled(row: LaneState, to: Cursor, records: number, nowMs: number): LaneState {
  assert(to.seq >= row.cursorSeq)
  return {
    ...movedTo(row, to),
    lastDeliveredMs: nowMs,
    deliveredRecords: row.deliveredRecords + records,
  }
}

export function withLease(row: LaneState, msgId: string, untilMs: number): LaneState {
  return { ...row, leaseMsgId: msgId, leaseUntilMs: untilMs }
}

/** The consumer rejected the message or its lease expired: it blocks the lane until it is pulled and acknowledged. */
export function afterLease(row: LaneState, code: 'nack' | 'lease_expired', nowMs: number): LaneState {
  assert(row.leaseMsgId !== null)
  const message =
    code === 'nack' ? 'The consumer rejected the message.' : 'The consumer did not respond within its lease.'
  return {
    ...row,
    ...noLease,
    attempts: row.attempts + 1,
    firstFailedMs: row.firstFailedMs ?? nowMs,
    blockingMsgId: row.leaseMsgId,
    lastError: ownError(code, message),
  }
}

/** An error that the destination did not cause. */
function ownError(code: string, message: string): LaneError {
  return {
    class: 'transient' as const,
    code,
    message,
    fault: null,
    recordIndex: null,
    column: null,
    value: null,
  }
}

/** The response could not be sent: the message is not delivered, and no failure is counted. */
export function withoutLease(row: LaneState): LaneState {
  return { ...row, ...noLease }
}

/**
 * The outcome of the messages that the cursor moved past, from the row before and after. It is saved with the row, so
 * that a message can be looked up while it is kept. Null when no message was passed; locating a cursor (setting its
 * first mark) passes none.
 */
export function passedBetween(before: LaneState, after: LaneState, nowMs: number): PassedMessages | null {
  if (after.cursorSeq === before.cursorSeq) return null
  const run = { firstSeq: before.cursorSeq + 1, lastSeq: after.cursorSeq, batchLastSeq: null, atMs: nowMs }
  if (after.cursorSeq < before.cursorSeq) {
    return { ...run, kind: 'rewound', firstSeq: after.cursorSeq + 1, lastSeq: before.cursorSeq, attempts: 0 }
  }
  if (after.skippedMessages > before.skippedMessages) {
    return { ...run, kind: 'skipped', attempts: before.attempts }
  }
  if (after.droppedMessages > before.droppedMessages) {
    return { ...run, kind: 'dropped', attempts: before.attempts }
  }
  const { batchFirstSeq, batchLastSeq } = before
  if (batchFirstSeq !== null && batchLastSeq !== null) {
    return { ...run, kind: 'delivered', firstSeq: batchFirstSeq, batchLastSeq, attempts: before.attempts + 1 }
  }
  // A consumer pulled them, without a batch.
  if (after.deliveredRecords > before.deliveredRecords) {
    return { ...run, kind: 'delivered', attempts: before.attempts + 1 }
  }
  return null
}
