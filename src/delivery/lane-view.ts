/** A lane as people see it: the contract's read-only `lane` object ("Management bodies"). Pure. */
import type { PipePosition } from '../buffer/buffer.ts'
import type { DestinationStatus, Lane, LaneState } from '../contract/destination.ts'
import type { LaneRow } from './delivery.ts'

export interface LaneFacts {
  row: LaneRow
  status: DestinationStatus
  isStalled: boolean
  /** The pipe's newest message. */
  head: PipePosition
  /** Of the oldest undelivered message; null when there is none. */
  oldestReceivedMs: number | null
  nowMs: number
}

export function laneView(facts: LaneFacts): Lane {
  const { row, head, nowMs } = facts
  const pending = pendingOf(row, head)
  const ageMs = facts.oldestReceivedMs === null ? 0 : nowMs - facts.oldestReceivedMs
  return {
    lane_state: laneState(facts, pending.messages),
    cursor_seq: row.cursorSeq,
    head_seq: head.seq,
    pending_messages: pending.messages,
    pending_bytes: pending.bytes,
    oldest_pending_age_seconds: pending.messages === 0 ? 0 : Math.max(0, Math.floor(ageMs / 1000)),
    blocking_msg_id: row.blockingMsgId,
    attempts: row.attempts,
    first_failed_ts: isoTime(row.firstFailedMs),
    next_attempt_ts: isoTime(row.nextAttemptMs),
    last_error: row.lastError,
    last_delivered_ts: isoTime(row.lastDeliveredMs),
    delivered_records: row.deliveredRecords,
    skipped_messages: row.skippedMessages,
    dropped_messages: row.droppedMessages,
  }
}

/** What lies between the cursor and the head: a difference of running totals. */
export function pendingOf(row: LaneRow, head: PipePosition): { messages: number; bytes: number } {
  const totals = row.cursorTotals ?? head
  return {
    messages: Math.max(0, head.messages - totals.messages),
    bytes: Math.max(0, head.bytes - totals.bytes),
  }
}

function laneState({ row, status, isStalled }: LaneFacts, pendingMessages: number): LaneState {
  if (status === 'blocked') return 'blocked'
  if (pendingMessages === 0) return 'idle'
  if (row.blockingMsgId === null) return 'flowing'
  return isStalled ? 'stalled' : 'retrying'
}

function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
