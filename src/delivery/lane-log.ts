/**
 * The log lines of a lane, one per attempt and one per change of state, and the measurements of attempts for `/metrics`.
 */
import type { DestinationType } from '../contract/destination.ts'
import type { Batch, DeliveryError } from '../destinations/driver.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { LaneSpec } from '../metadata/lane-state.ts'
import type { NewParked } from '../metadata/parked-store-port.ts'
import {
  attemptSecondsBounds,
  bytesBounds,
  countBounds,
  Histogram,
  type HistogramCounts,
} from '../platform/histogram.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptOutcome } from './attempt.ts'
import type { DroppedMessages } from './batch-reader.ts'

export interface LaneLog {
  /** Later lines use the new name. */
  renamed(spec: LaneSpec): void
  attempted(batch: Batch, attempt: number, outcome: AttemptOutcome, ms: number): void
  /** A single message was rejected permanently: the lane continues only after a change or a skip. */
  stuck(message: StoredMessage, error: DeliveryError): void
  stalled(message: StoredMessage, error: DeliveryError): void
  recovered(): void
  dropped(lost: DroppedMessages): void
  skipped(message: StoredMessage): void
  parked(parked: readonly NewParked[]): void
  replayed(parkedId: string, message: StoredMessage): void
  replayFailed(parkedId: string, message: StoredMessage, error: DeliveryError): void
  rewound(cursorSeq: number): void
  ownershipLost(): void
  notSaved(): void
}

export function openLaneLog(log: Logger, spec: LaneSpec): LaneLog {
  let lane = namesOf(spec)
  const failed = ({ msgId, seq }: StoredMessage, { code, message }: DeliveryError) => ({
    ...lane,
    msg_id: msgId,
    stream_seq: seq,
    code,
    message,
  })
  return {
    renamed: (now) => {
      lane = namesOf(now)
    },
    attempted(batch, attempt, outcome, ms) {
      const error = outcome.kind === 'failed' ? outcome.error : null
      const fields = {
        ...lane,
        attempt,
        first_seq: batch.firstSeq,
        last_seq: batch.lastSeq,
        records: batch.recordCount,
        bytes: batch.byteCount,
        record_offset: batch.recordOffset || undefined,
        stored_records: outcome.kind === 'delivered' ? undefined : outcome.storedRecords || undefined,
        ms: Math.round(ms),
        outcome: error?.class ?? outcome.kind,
        code: error?.code,
      }
      if (error === null) log.debug(fields, 'delivery.attempted')
      else log.info({ ...fields, message: error.message, detail: error.detail }, 'delivery.attempted')
    },
    stuck: (message, error) => log.warn(failed(message, error), 'lane.stuck'),
    stalled: (message, error) => log.warn(failed(message, error), 'lane.stalled'),
    recovered: () => log.info(lane, 'lane.recovered'),
    dropped({ dropped, reason, firstSeq, lastSeq }) {
      const fields = { ...lane, messages: dropped, reason, first_seq: firstSeq, last_seq: lastSeq }
      if (reason === 'retention') log.warn(fields, 'lane.messages_dropped')
      else log.error(fields, 'lane.messages_lost')
    },
    skipped: ({ msgId, seq }) => log.info({ ...lane, msg_id: msgId, stream_seq: seq }, 'lane.skipped'),
    parked(parked) {
      for (const seq of new Set(parked.map((one) => one.seq))) {
        const ofMessage = parked.filter((one) => one.seq === seq)
        const [{ msgId, code, message }] = ofMessage as [NewParked, ...NewParked[]]
        const records = ofMessage.reduce((sum, { recordCount }) => sum + recordCount, 0)
        log.warn({ ...lane, msg_id: msgId, stream_seq: seq, records, code, message }, 'lane.parked')
      }
    },
    replayed: (parkedId, { msgId, seq, recordCount }) =>
      log.info(
        { ...lane, parked_id: parkedId, msg_id: msgId, stream_seq: seq, records: recordCount },
        'lane.replayed',
      ),
    replayFailed: (parkedId, message, error) =>
      log.warn({ ...failed(message, error), parked_id: parkedId }, 'lane.replay_failed'),
    rewound: (cursorSeq) => log.info({ ...lane, cursor_seq: cursorSeq }, 'lane.rewound'),
    ownershipLost: () => log.warn(lane, 'lane.ownership_lost'),
    notSaved: () => log.warn(lane, 'lane.not_saved'),
  }
}

/** Fields that identify the lane of a log line, as ids and as names. */
export function namesOf({ destinationId, pipeId, pipeName, name }: LaneSpec): Record<string, string> {
  return { destination_id: destinationId, pipe_id: pipeId, pipe_name: pipeName, destination_name: name }
}

/** The part that is sent to the main thread. */
export interface AttemptHistograms {
  type: DestinationType
  /** By outcome. Aborted attempts are not counted. */
  seconds: Record<'delivered' | 'failed', HistogramCounts>
  batchRecords: HistogramCounts
  batchBytes: HistogramCounts
}

class OfType {
  readonly delivered = new Histogram(attemptSecondsBounds)
  readonly failed = new Histogram(attemptSecondsBounds)
  readonly records = new Histogram(countBounds)
  readonly bytes = new Histogram(bytesBounds)
}

export class AttemptsObserved {
  readonly #byType = new Map<DestinationType, OfType>()

  attempted(
    type: DestinationType,
    batch: Batch,
    outcome: 'delivered' | 'failed' | 'aborted',
    tookMs: number,
  ): void {
    if (outcome === 'aborted') return
    let of = this.#byType.get(type)
    if (of === undefined) {
      of = new OfType()
      this.#byType.set(type, of)
    }
    of[outcome].observe(tookMs / 1000)
    of.records.observe(batch.recordCount)
    of.bytes.observe(batch.byteCount)
  }

  histograms(): AttemptHistograms[] {
    return [...this.#byType].map(([type, { delivered, failed, records, bytes }]) => ({
      type,
      seconds: { delivered: delivered.countsOf(0), failed: failed.countsOf(0) },
      batchRecords: records.countsOf(0),
      batchBytes: bytes.countsOf(0),
    }))
  }
}
