/** The record of an attempt, for people who look at a lane (`metadata/lane-attempts.ts`). */
import type { DeliveryAttempt } from '../contract/attempts.ts'
import type { Batch } from '../destinations/driver.ts'
import type { NumberedAttempt } from '../metadata/lane-attempts.ts'
import type { LaneState } from '../metadata/lane-state.ts'
import type { AttemptOutcome } from './attempt.ts'

export interface EndedAttempt<Outcome = AttemptOutcome> {
  outcome: Outcome
  /** ms since the epoch. */
  startedMs: number
  tookMs: number
}

export interface CountedAttempt extends EndedAttempt<Exclude<AttemptOutcome, { kind: 'aborted' }>> {
  batch: Batch
  /** Its number among the attempts at this batch. */
  attempt: number
}

/** The row with the attempt counted, and the attempt with its numbers. */
export function afterAttempt(
  row: LaneState,
  ended: CountedAttempt,
): { row: LaneState; attempt: NumberedAttempt } {
  const isDelivered = ended.outcome.kind === 'delivered'
  const deliveredAttempts = row.deliveredAttempts + (isDelivered ? 1 : 0)
  const failedAttempts = row.failedAttempts + (isDelivered ? 0 : 1)
  return {
    row: { ...row, deliveredAttempts, failedAttempts },
    attempt: {
      numberOfOutcome: isDelivered ? deliveredAttempts : failedAttempts,
      attempt: describe(ended, deliveredAttempts + failedAttempts),
    },
  }
}

function describe(
  { batch, attempt, outcome, startedMs, tookMs }: CountedAttempt,
  no: number,
): DeliveryAttempt {
  const { exchange } = outcome
  const isDelivered = outcome.kind === 'delivered'
  return {
    attempt_no: no,
    attempt_ts: new Date(startedMs).toISOString(),
    duration_ms: Math.round(tookMs * 10) / 10,
    outcome: outcome.kind,
    batch_id: batch.identity,
    batch_attempt: attempt,
    is_replay: batch.isReplay ?? false,
    first_seq: batch.firstSeq,
    last_seq: batch.lastSeq,
    records: batch.recordCount,
    bytes: batch.byteCount,
    stored_records: isDelivered ? batch.recordCount : outcome.storedRecords,
    error: isDelivered ? null : errorOf(outcome.error),
    request: exchange?.request ?? null,
    response: exchange?.response ?? null,
  }
}

function errorOf({ class: errorClass, code, message }: NonNullable<DeliveryAttempt['error']>) {
  return { class: errorClass, code, message }
}
