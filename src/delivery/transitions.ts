/**
 * Every change of a lane's durable state, one function each: pure, and asserting what must hold before it. The row is
 * never changed in place: a saved row stays what was saved. What an attempt changes is in `progress.ts`.
 */
import assert from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import type { Cursor, MarkedMessage, StoredMessage } from '../log/buffer.ts'
import {
  type LaneError,
  type LaneSpec,
  type LaneState,
  type LaneStateDamagedError,
  newLaneState,
  type PassedMessages,
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
const noNext = { nextFirstSeq: null, nextLastSeq: null }
const noLease = { leaseMsgId: null, leaseUntilMs: null }

/**
 * Nothing in the stored row says where the lane was: it begins again at the earliest message that is kept, so that
 * messages are repeated and none is lost. Its counters are kept; `lastError` stays until a batch is delivered.
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

/** The range is decided: every attempt from now on sends exactly these messages. */
export function withRange(row: LaneState, messages: readonly StoredMessage[]): LaneState {
  assert(messages.length > 0 && messages[0]!.seq > row.cursorSeq)
  return { ...row, batchFirstSeq: messages[0]!.seq, batchLastSeq: messages.at(-1)!.seq }
}

/**
 * The batch after the one under way is decided, too: once it is saved, it can be sent as soon as that one is stored.
 */
export function withNext(row: LaneState, messages: readonly StoredMessage[]): LaneState {
  assert(row.nextFirstSeq === null && messages.length > 0)
  assert(messages[0]!.seq > (row.bisectLastSeq ?? row.batchLastSeq ?? row.cursorSeq))
  return { ...row, nextFirstSeq: messages[0]!.seq, nextLastSeq: messages.at(-1)!.seq }
}

/** It was not sent, or the contract lets it be cut again: what comes next is decided when its turn comes. */
export function withoutNext(row: LaneState): LaneState {
  return row.nextFirstSeq === null ? row : { ...row, ...noNext }
}

/** Everything before the next range is done with: it is the one under way. */
export function withNextAsRange(row: LaneState): LaneState {
  assert(row.batchLastSeq === null && row.bisectLastSeq === null && row.nextFirstSeq !== null)
  return { ...row, batchFirstSeq: row.nextFirstSeq, batchLastSeq: row.nextLastSeq, ...noNext }
}

/** The range can no longer be read as it was: another one is cut. */
export function withoutRange(row: LaneState): LaneState {
  return { ...row, ...noBatch, bisectLastSeq: null }
}

/**
 * The pause is over, and a range of several messages that failed is cut again as the limits are now: another range has
 * another identity (docs/dev/contract.md#progress, e).
 */
export function afterRetryNow(row: LaneState): LaneState {
  const isSingle = row.batchFirstSeq === row.batchLastSeq && row.bisectLastSeq === null
  return { ...row, ...(isSingle ? {} : { ...noBatch, bisectLastSeq: null }), nextAttemptMs: null }
}

/** Other limits: the range is cut again by them, and the size that worked is found again. */
function afterChangedLimits(row: LaneState): LaneState {
  return { ...afterRetryNow(withoutNext(row)), sizeLimitRecords: null, sizeSuccesses: 0 }
}

/** Another destination: what was stored of half a message was stored elsewhere. */
function afterChangedDestination(row: LaneState): LaneState {
  return { ...afterChangedLimits(row), recordOffset: 0 }
}

/** Its name is for people: nothing else of it is different. */
export function isOnlyRenamed(before: LaneSpec, after: LaneSpec): boolean {
  const { name, revision } = after
  return before.name !== name && isDeepStrictEqual({ ...before, name, revision }, after)
}

/** A range is kept only while destination and limits are the same: unblocking one sends the same batch again. */
export function afterReconfigured(row: LaneState, before: LaneSpec, after: LaneSpec): LaneState {
  if (targetOf(before) !== targetOf(after)) return afterChangedDestination(row)
  // The stored part of half a message stays stored: the transform applies to undelivered records only.
  const isSame = (key: 'flush' | 'transform') => JSON.stringify(before[key]) === JSON.stringify(after[key])
  if (!isSame('flush') || !isSame('transform')) return afterChangedLimits(row)
  return row.nextAttemptMs === null ? row : { ...row, nextAttemptMs: null }
}

function targetOf({ type, config, columns, timestampField }: LaneSpec): string {
  return JSON.stringify([type, config, columns, timestampField])
}

/** An operator decided that this one message is not delivered. */
export function afterSkip(row: LaneState, message: MarkedMessage): LaneState {
  assert(message.msgId === row.blockingMsgId)
  return {
    ...movedTo(row, message),
    skippedMessages: row.skippedMessages + 1,
  }
}

/** The destination rejects this message for good, and it is parked. */
export function afterParked(row: LaneState, message: MarkedMessage): LaneState {
  assert(message.seq > row.cursorSeq)
  return movedTo(row, message)
}

export function afterRewind(row: LaneState, to: Cursor, nowMs: number): LaneState {
  assert(to.seq <= row.cursorSeq)
  return { ...withoutNext(movedTo(row, to)), generation: nextGeneration(row.generation, nowMs) }
}

/** Greater than every earlier one, and of no other rewind: not even of one in a copy of this data directory. */
function nextGeneration(generation: number, nowMs: number): number {
  return Math.max(generation + 1, nowMs)
}

/** Messages before `to` are gone undelivered: retention took them, or they were found damaged. */
export function afterDropped(row: LaneState, to: Cursor, dropped: number): LaneState {
  assert(to.seq >= row.cursorSeq && dropped >= 0)
  return { ...movedTo(row, to), droppedMessages: row.droppedMessages + dropped }
}

/** The cursor was moved by something other than a delivery: what was under way is dropped. The next range stays whole or goes. */
function movedTo(row: LaneState, { seq, mark }: Cursor): LaneState {
  const nothingUnderWay = { ...noBatch, ...noFailure, ...noLease, recordOffset: 0 }
  const isNextWhole = row.nextFirstSeq !== null && row.nextFirstSeq > seq
  return { ...(isNextWhole ? row : withoutNext(row)), ...nothingUnderWay, cursorSeq: seq, cursorMark: mark }
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

/** The consumer rejected the message, or its lease expired: it blocks the lane until it is pulled and acknowledged. */
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

/** An error that is not a destination's. */
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

/** The response could not be sent: not delivered, and not counted as a failure. */
export function withoutLease(row: LaneState): LaneState {
  return { ...row, ...noLease }
}

/**
 * The outcome of the messages that the cursor moved past, from the row before and after. It is saved with the row, so
 * that a message can be looked up as long as it is kept. Null: nothing was passed. A cursor that is only located (its
 * first mark) passes nothing that was this lane's.
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
  // Pulled: a consumer took them, in no batch.
  if (after.deliveredRecords > before.deliveredRecords) {
    return { ...run, kind: 'delivered', attempts: before.attempts + 1 }
  }
  return null
}
