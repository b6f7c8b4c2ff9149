/**
 * Every change of a lane's durable state, one function each: pure, and asserting what must hold before it. The row is
 * never changed in place: a saved row stays what was saved.
 */
import assert from 'node:assert'
import type { PipePosition, PipeTotals, StoredMessage } from '../buffer/buffer.ts'
import type { DeliveryError } from '../destinations/driver.ts'
import type { LaneRow } from './delivery.ts'
import { narrowTo } from './flush-plan.ts'

const noFailure = {
  suspectLastSeq: null,
  attempts: 0,
  firstFailedMs: null,
  nextAttemptMs: null,
  blockingMsgId: null,
  lastError: null,
}
const noBatch = { batchFirstSeq: null, batchLastSeq: null }
const noLease = { leaseMsgId: null, leaseUntilMs: null }

/** A lane that has never done anything; `cursorSeq` 0: before the earliest message that is kept. */
export function newLaneRow(destinationId: string, cursorSeq = 0): LaneRow {
  return {
    destinationId,
    cursorSeq,
    cursorTotals: null,
    ...noBatch,
    ...noFailure,
    lastDeliveredMs: null,
    deliveredRecords: 0,
    skippedMessages: 0,
    droppedMessages: 0,
    ...noLease,
  }
}

/** The range is decided: every attempt from now on sends exactly these messages. */
export function withRange(row: LaneRow, messages: readonly StoredMessage[]): LaneRow {
  assert(messages.length > 0 && messages[0]!.seq > row.cursorSeq)
  return { ...row, batchFirstSeq: messages[0]!.seq, batchLastSeq: messages.at(-1)!.seq }
}

/** The range is stored at the destination. `rest`: what remains of the run that is known to hold a failing message. */
export function afterDelivered(
  row: LaneRow,
  delivered: readonly StoredMessage[],
  rest: readonly StoredMessage[],
  nowMs: number,
): LaneRow {
  assert(delivered.at(-1)?.seq === row.batchLastSeq)
  const records = recordsOf(delivered)
  const moved = {
    ...row,
    ...noBatch,
    cursorSeq: row.batchLastSeq!,
    cursorTotals: added(row.cursorTotals, delivered),
    lastDeliveredMs: nowMs,
    deliveredRecords: row.deliveredRecords + records,
  }
  if (rest.length === 0) return { ...moved, ...noFailure }
  // The failing message lies in what remains, since the whole failed and this part did not. It is narrowed further
  // at once; a single one is tried alone, so that the destination's answer is about it and nothing else.
  const next = rest.slice(0, rest.length === 1 ? 1 : narrowTo(rest, undefined))
  return withRange(
    { ...moved, blockingMsgId: rest[0]!.msgId, suspectLastSeq: rest.at(-1)!.seq, nextAttemptMs: null },
    next,
  )
}

/** A permanent refusal of several messages: the search goes on in the first part of them, at once. */
export function afterNarrowing(
  row: LaneRow,
  failed: readonly StoredMessage[],
  rest: readonly StoredMessage[],
  error: DeliveryError,
  nowMs: number,
): LaneRow {
  assert(failed.length > 1 && failed.at(-1)!.seq === row.batchLastSeq)
  // With a hint the part before the hinted message is tried next and the hinted one stays the last suspect.
  const hinted = failed.findIndex((message) => message.seq === error.failedSeq)
  const suspects = hinted >= 0 ? failed.slice(0, hinted + 1) : failed
  assert(rest.length === 0 || rest[0]!.seq > row.batchLastSeq!)
  return withRange(
    {
      ...withFailure(row, failed[0]!, error, nowMs),
      nextAttemptMs: null,
      suspectLastSeq: suspects.at(-1)!.seq,
    },
    failed.slice(0, narrowTo(failed, error.failedSeq)),
  )
}

/** The same range again after a pause; a message that stands alone is no longer searched for. */
export function afterPause(
  row: LaneRow,
  failed: readonly StoredMessage[],
  error: DeliveryError,
  nextAttemptMs: number,
  nowMs: number,
): LaneRow {
  const found = error.class === 'permanent' && failed.length === 1
  return {
    ...withFailure(row, failed[0]!, error, nowMs),
    nextAttemptMs,
    suspectLastSeq: found ? null : row.suspectLastSeq,
  }
}

function withFailure(row: LaneRow, blocking: StoredMessage, error: DeliveryError, nowMs: number): LaneRow {
  assert(row.batchFirstSeq !== null)
  return {
    ...row,
    attempts: row.attempts + 1,
    firstFailedMs: row.firstFailedMs ?? nowMs,
    blockingMsgId: blocking.msgId,
    lastError: { class: error.class, code: error.code, message: error.message },
  }
}

/** Somebody decided that this one message is not delivered. */
export function afterSkip(row: LaneRow, message: StoredMessage): LaneRow {
  assert(message.msgId === row.blockingMsgId)
  return {
    ...row,
    ...noBatch,
    ...noFailure,
    ...noLease,
    cursorSeq: message.seq,
    cursorTotals: added(row.cursorTotals, [message]),
    skippedMessages: row.skippedMessages + 1,
  }
}

/** The failure stands, the pause is over. */
export function afterRetryNow(row: LaneRow): LaneRow {
  return { ...row, nextAttemptMs: null }
}

export function afterRewind(row: LaneRow, cursorSeq: number, totals: PipeTotals): LaneRow {
  assert(cursorSeq <= row.cursorSeq)
  return { ...row, ...noBatch, ...noFailure, ...noLease, cursorSeq, cursorTotals: totals }
}

/** Messages before `to` are gone undelivered: retention took them, or they were found damaged. */
export function afterDropped(row: LaneRow, to: PipePosition, dropped: number): LaneRow {
  assert(to.seq >= row.cursorSeq && dropped >= 0)
  return {
    ...row,
    ...noBatch,
    ...noFailure,
    ...noLease,
    cursorSeq: to.seq,
    cursorTotals: totalsOf(to),
    droppedMessages: row.droppedMessages + dropped,
  }
}

/** A pull consumer has everything up to `to`. */
export function afterPulled(row: LaneRow, to: PipePosition, records: number, nowMs: number): LaneRow {
  assert(to.seq >= row.cursorSeq)
  return {
    ...row,
    ...noFailure,
    ...noLease,
    cursorSeq: to.seq,
    cursorTotals: totalsOf(to),
    lastDeliveredMs: nowMs,
    deliveredRecords: row.deliveredRecords + records,
  }
}

export function withLease(row: LaneRow, msgId: string, untilMs: number): LaneRow {
  return { ...row, leaseMsgId: msgId, leaseUntilMs: untilMs }
}

/** The consumer gave the message back, or its lease ran out: it blocks the lane until it is pulled and acknowledged. */
export function afterLease(row: LaneRow, code: 'nack' | 'lease_expired', nowMs: number): LaneRow {
  assert(row.leaseMsgId !== null)
  const message =
    code === 'nack' ? 'The consumer gave the message back.' : 'The consumer did not answer within its lease.'
  return {
    ...row,
    ...noLease,
    attempts: row.attempts + 1,
    firstFailedMs: row.firstFailedMs ?? nowMs,
    blockingMsgId: row.leaseMsgId,
    lastError: { class: 'transient', code, message },
  }
}

/** The response could not be sent: nobody has the message, and nobody is to blame. */
export function withoutLease(row: LaneRow): LaneRow {
  return { ...row, ...noLease }
}

export function recordsOf(messages: readonly StoredMessage[]): number {
  return messages.reduce((sum, message) => sum + message.recordCount, 0)
}

export function bytesOf(messages: readonly StoredMessage[]): number {
  return messages.reduce((sum, message) => sum + message.body.length, 0)
}

export function totalsOf({ messages, records, bytes }: PipeTotals): PipeTotals {
  return { messages, records, bytes }
}

function added(totals: PipeTotals | null, messages: readonly StoredMessage[]): PipeTotals {
  assert(totals !== null)
  return {
    messages: totals.messages + messages.length,
    records: totals.records + recordsOf(messages),
    bytes: totals.bytes + bytesOf(messages),
  }
}
