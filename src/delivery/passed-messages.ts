/**
 * Derives the outcome of the messages that a lane's cursor moved past from the row before and after: pure. It is
 * saved with the row (`durable-state.ts`), so that a message can be looked up as long as it is kept.
 */
import type { LaneState, PassedMessages } from '../metadata/lane-state.ts'

/** Null: nothing was passed. A cursor that is only located (its first mark) passes nothing that was this lane's. */
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
