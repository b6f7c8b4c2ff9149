/**
 * The log lines of a lane, one per attempt and one per change of state. Next to them: the stored record of an attempt, its
 * latency, and the measurements of all attempts for `/metrics`.
 */
import type { DeliveryAttempt } from '../contract/attempts.ts'
import type { DestinationType } from '../contract/destination.ts'
import type { Batch, DeliveryError } from '../destinations/driver.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { LaneSpec, LaneState, LatencyOfHour, NumberedAttempt } from '../metadata/lane-state.ts'
import type { NewParked } from '../metadata/parked-store-port.ts'
import {
  attemptSecondsBounds,
  bytesBounds,
  countBounds,
  DurationHistogram,
  Histogram,
  type HistogramCounts,
  latencySecondsBounds,
} from '../platform/histogram.ts'
import type { Logger } from '../platform/log.ts'
import { hourMs } from '../platform/quantities.ts'
import type { AttemptOutcome } from './attempt.ts'
import type { DroppedMessages } from './batch-reader.ts'
import type { Clock } from './clock.ts'

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
  rangeStarted(replayId: string): void
  rangeExpired(replayId: string, lost: Record<string, unknown>): void
  rangeEnded(replayId: string, result: Record<string, unknown>): void
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
    rangeStarted: (replayId) => log.info({ ...lane, replay_id: replayId }, 'lane.range_replay_started'),
    rangeExpired: (replayId, lost) =>
      log.warn({ ...lane, replay_id: replayId, ...lost }, 'lane.range_replay_expired'),
    rangeEnded: (replayId, result) =>
      log.info({ ...lane, replay_id: replayId, ...result }, 'lane.range_replay_ended'),
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

export const writeLatencyEveryMs = 10_000

interface Gathered {
  hourMs: number
  records: DurationHistogram
  delivered: DurationHistogram
  failed: DurationHistogram
}

export type Measured = Pick<StoredMessage, 'seq' | 'receivedMs' | 'recordCount'>

/**
 * Measures how long the records of a lane take from their acceptance to the destination, and how long its attempts
 * take. The counts are gathered here and written with a save of the lane's row, at most every 10 s and when the lane is
 * closed. A crash, or a takeover by another node, loses what was gathered since: statistics of 10 s, and no record.
 *
 *   stored, attempted ──▶ gathered by hour ──take──▶ a save of the row
 *                    └──▶ counters since this process has the lane, for `/metrics`
 */
export class LaneLatency {
  readonly #clock: Clock
  readonly #seconds = new Histogram(latencySecondsBounds)
  #hours: Gathered[] = []
  /** Monotonic. */
  #takenAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The destination has these messages now, except for `leftOut` records of each. Messages that were accepted in the
   * same millisecond are counted together.
   */
  stored<Message extends Measured>(
    messages: readonly Message[],
    leftOut: (message: Message) => number = () => 0,
  ): void {
    const now = this.#clock.now()
    for (let index = 0; index < messages.length; ) {
      const { receivedMs } = messages[index]!
      let records = 0
      for (; index < messages.length && messages[index]!.receivedMs === receivedMs; index += 1)
        records += messages[index]!.recordCount - leftOut(messages[index]!)
      if (records <= 0) continue
      const ms = Math.max(0, now - receivedMs)
      this.#hour(now).records.observe(ms, records)
      this.#seconds.observe(ms / 1_000, records)
    }
  }

  attempted(outcome: 'delivered' | 'failed', tookMs: number): void {
    this.#hour(this.#clock.now())[outcome].observe(tookMs)
  }

  /** Seconds from acceptance to the destination, by record. */
  get seconds(): HistogramCounts {
    return this.#seconds.countsOf(0)
  }

  /** The time until `take` has something; Infinity when nothing is gathered. */
  get dueInMs(): number {
    if (this.#hours.length === 0) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#takenAt + writeLatencyEveryMs - this.#clock.monotonicMs())
  }

  /** Everything gathered, to be written now. Empty while it is not due, except for the last save of the lane. */
  take(isLast: boolean): LatencyOfHour[] {
    if (this.#hours.length === 0 || (!isLast && this.dueInMs > 0)) return []
    const taken = this.#hours.map(({ hourMs, records, delivered, failed }) => ({
      hourMs,
      counts: { records: records.sparse(), delivered: delivered.sparse(), failed: failed.sparse() },
    }))
    this.#hours = []
    this.#takenAt = this.#clock.monotonicMs()
    return taken
  }

  #hour(nowMs: number): Gathered {
    const startMs = nowMs - (nowMs % hourMs)
    let hour = this.#hours.at(-1)
    if (hour?.hourMs !== startMs) {
      hour = {
        hourMs: startMs,
        records: new DurationHistogram(),
        delivered: new DurationHistogram(),
        failed: new DurationHistogram(),
      }
      this.#hours.push(hour)
    }
    return hour
  }
}

/** The record of an attempt, for people who look at a lane (`metadata/lane-history.ts`). */
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
