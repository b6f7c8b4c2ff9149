/** Builds the contract's read-only `lane` object ("Management bodies") from a lane's state. */
import type { LaneStateName, LaneStatus } from '../contract/destination.ts'
import type { LaneError, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import type { BatchReader } from './batch-reader.ts'
import type { LaneBacklog } from './lane.ts'

export interface LaneFacts {
  spec: LaneSpec
  row: LaneState
  batches: BatchReader
  isStalled: boolean
  parked: ParkedCounts
  unmappedKeys: number
  nowMs: number
}

export async function laneStatus({
  spec,
  row: saved,
  batches,
  isStalled,
  parked,
  unmappedKeys,
  nowMs,
}: LaneFacts): Promise<LaneStatus> {
  const row = await batches.located(saved)
  const head = await batches.head()
  const pending = await batches.backlog(row)
  const oldestMs = pending.messages === 0 ? null : await batches.oldestReceivedMs(row)
  const ageMs = oldestMs === null ? 0 : nowMs - oldestMs
  return {
    lane_state: stateName(spec, row, pending.messages, isStalled),
    cursor_seq: row.cursorSeq,
    head_seq: head.seq,
    pending_messages: pending.messages,
    pending_bytes: pending.bytes,
    oldest_pending_age_seconds: Math.max(0, Math.floor(ageMs / 1000)),
    blocking_msg_id: row.blockingMsgId,
    attempts: row.attempts,
    first_failed_ts: isoTime(row.firstFailedMs),
    next_attempt_ts: isoTime(row.nextAttemptMs),
    last_error: shownError(row.lastError),
    last_delivered_ts: isoTime(row.lastDeliveredMs),
    delivered_records: row.deliveredRecords,
    filtered_records: row.filteredRecords,
    skipped_messages: row.skippedMessages,
    dropped_messages: row.droppedMessages,
    parked_records: parked.rows,
    parked_dropped_records: parked.droppedRecords,
    ...(unmappedKeys > 0 ? { unmapped_keys: unmappedKeys } : {}),
  }
}

export function shownError(error: LaneError | null): LaneStatus['last_error'] {
  if (error === null) return null
  const { recordIndex, ...shown } = error
  return { ...shown, record_index: recordIndex }
}

export async function laneBacklog(
  spec: LaneSpec,
  row: LaneState,
  batches: BatchReader,
): Promise<LaneBacklog> {
  const { messages, bytes } = await batches.backlog(row)
  return { messages, bytes, isStuck: spec.status === 'blocked' || row.blockingMsgId !== null }
}

/** A message blocks the lane and a command could change that. False while the destination is blocked. */
export function isBlocking(spec: LaneSpec, row: LaneState): boolean {
  return spec.status !== 'blocked' && row.blockingMsgId !== null
}

function stateName(
  spec: LaneSpec,
  row: LaneState,
  pendingMessages: number,
  isStalled: boolean,
): LaneStateName {
  if (spec.status === 'blocked') return 'blocked'
  if (pendingMessages === 0) return 'idle'
  if (row.blockingMsgId === null) return 'flowing'
  return isStalled ? 'stalled' : 'retrying'
}

export function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
