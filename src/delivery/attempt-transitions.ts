/**
 * The changes that an attempt at a range makes to a lane's durable state, stored or failed: by the rules of
 * `transitions.ts`, pure and never in place.
 */
import assert from 'node:assert'
import type { DeliveryError } from '../destinations/driver.ts'
import type { MarkedMessage, StoredMessage } from '../log/buffer.ts'
import type { LaneError, LaneState } from '../metadata/lane-state.ts'
import { bisectAt, firstHalf, recordsOf } from './batch.ts'
import { noBatch, noFailure, withRange } from './transitions.ts'

/** The size limit is doubled after so many batches in a row (docs/dev/contract.md#progress, c). */
const successesToGrow = 8

/**
 * The range is stored at the destination. `rest`: what remains of the run that is known to hold a failing message.
 * `maxRecords`: the flush plan, up to which a size limit grows.
 */
export function afterDelivered(
  row: LaneState,
  delivered: readonly MarkedMessage[],
  rest: readonly StoredMessage[],
  maxRecords: number,
  nowMs: number,
): LaneState {
  assert(delivered.at(-1)?.seq === row.batchLastSeq)
  const moved = { ...pastStored(row, delivered, nowMs), ...noBatch, ...grownSize(row, maxRecords) }
  if (rest.length === 0) return { ...moved, ...noFailure }
  // The failing message is in what remains, since the whole failed and this part did not. It is bisected further
  // at once; a single one is tried alone, so that the destination's response is about it and nothing else.
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
 * An attempt that did not come through stored the first `storedRecords` of its range, counted from the first message.
 * The cursor moves past the messages that are stored whole; `recordOffset` is how much of the next one is.
 */
export function afterPartlyStored(
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
  // The destination takes records: a failure from here on is a new one.
  const { bisectLastSeq } = row
  return {
    row: withRange({ ...moved, ...noFailure, bisectLastSeq, recordOffset: offset }, left),
    stored,
    left,
  }
}

/** Several messages were rejected for good: the search goes on in the first part of them, at once. */
export function afterBisect(
  row: LaneState,
  failed: readonly StoredMessage[],
  rest: readonly StoredMessage[],
  error: DeliveryError,
  nowMs: number,
): LaneState {
  assert(failed.length > 1 && failed.at(-1)!.seq === row.batchLastSeq)
  // With a hint the part before the hinted message is tried next and the hinted one becomes the last of the search.
  const hinted = failed.findIndex((message) => message.seq === error.failedSeq)
  const searched = hinted >= 0 ? failed.slice(0, hinted + 1) : failed
  assert(rest.length === 0 || rest[0]!.seq > row.batchLastSeq!)
  return withRange(
    {
      ...withFailure(row, failed[0]!, error, nowMs),
      nextAttemptMs: null,
      bisectLastSeq: searched.at(-1)!.seq,
    },
    failed.slice(0, bisectAt(failed, error.failedSeq)),
  )
}

/** The range took too long: its first half is tried at once, and batches stay at that size until it proves too small. */
export function afterHalving(
  row: LaneState,
  failed: readonly StoredMessage[],
  error: DeliveryError,
  nowMs: number,
): LaneState {
  assert(failed.length > 1 && failed.at(-1)!.seq === row.batchLastSeq)
  return withRange(
    {
      ...withFailure(row, failed[0]!, error, nowMs),
      nextAttemptMs: null,
      sizeLimitRecords: Math.floor(recordsOf(failed) / 2),
      sizeSuccesses: 0,
    },
    firstHalf(failed),
  )
}

/** The same range again after a pause; a message that is isolated is no longer searched for. */
export function afterPause(
  row: LaneState,
  failed: readonly StoredMessage[],
  error: DeliveryError,
  nextAttemptMs: number,
  nowMs: number,
): LaneState {
  const isFound = error.class === 'permanent' && failed.length === 1
  return {
    ...withFailure(row, failed[0]!, error, nowMs),
    nextAttemptMs,
    bisectLastSeq: isFound ? null : row.bisectLastSeq,
  }
}

function withFailure(
  row: LaneState,
  blocking: StoredMessage,
  error: DeliveryError,
  nowMs: number,
): LaneState {
  assert(row.batchFirstSeq === blocking.seq)
  return {
    ...row,
    attempts: row.attempts + 1,
    firstFailedMs: row.firstFailedMs ?? nowMs,
    blockingMsgId: blocking.msgId,
    lastError: laneError(error, blocking.seq),
  }
}

/** The record that a batch's failure names may be of a later message: then the lane continues without it. */
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
