/**
 * The ports of delivery, one for each kind of consumer. In the main thread `delivery-proxy.ts` implements them by
 * messages to the delivery thread, the only owner of lane state.
 *
 * An id without a lane is treated as an unblocked lane. Management checks whether the destination exists.
 */
import type { DestinationType, LaneStatus } from '../contract/destination.ts'
import type { ColumnFailure, UnmappedKeys } from '../contract/drift.ts'
import type { SuccessBody } from '../contract/operations.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type { Transform } from '../contract/transform.ts'
import type { TransformFault, TrialOutcome } from '../contract/transform-trial.ts'
import type {
  DeliveryErrorClass,
  DeliveryFault,
  DestinationCheck,
  DestinationSpec,
  InferRequest,
} from '../destinations/driver.ts'
import type { HistogramCounts } from '../platform/histogram.ts'
import type { AttemptHistograms } from './lane-log.ts'

/** The backlog of a pipe over all of its lanes, for `usage_by_pipe`. */
export interface PipeBacklog {
  /** Messages after the slowest lane's cursor; all kept messages when the pipe has no lane. */
  pending_messages: number
  pending_bytes: number
  /** Lanes with a blocking message or a blocked destination. */
  blocked_lanes: number
}

/** The lanes that have changed since an earlier read. */
export interface ChangedLanes {
  /** The argument for the next read. */
  revision: string
  lanes: Record<string, LaneStatus>
  /** In a cluster: the lanes that the asked node does not run. */
  absent?: readonly string[]
}

/** The facts about a lane from which alerts are derived. Times are ms since the epoch. */
export interface LaneTrouble {
  workspaceId: string
  pipeId: string
  destinationId: string
  /** The destination is blocked: there are no attempts, so no failure and no recovery. */
  isHalted: boolean
  /** The failure of the first undelivered message; null when none of its attempts has failed. */
  failure: LaneFailure | null
  /** No message is known to be pending. */
  isIdle: boolean
  lastDeliveredMs: number | null
  droppedMessages: number
  /** Records parked now; a message that is parked as a whole counts once. */
  parkedRecords: number
  /** Time at which the oldest undelivered message was received; null when there is none, or ages were not requested. */
  oldestPendingMs: number | null
  /** The limit of the pipe (`pipe_retention_hours`). Null or undefined: that of the daemon. */
  retentionHours?: number | null
  /** Keys of records that no column takes. Null: not known yet. Undefined: the node has an earlier version. */
  unmapped?: UnmappedKeys | null
  /** Why `auto_add_columns` has not added columns; null: nothing has failed. */
  columnFailure?: ColumnFailure | null
}

export interface LaneFailure {
  msgId: string
  attempts: number
  firstFailedMs: number
  /** The destination permanently rejected this single message. */
  isStuck: boolean
  /** The failure has lasted longer than `destination_max_retry_seconds`. */
  isStalled: boolean
  error: { class: DeliveryErrorClass; code: string; message: string; fault: DeliveryFault | null } | null
}

export interface TroubleQuery {
  /** Only lanes of these workspaces. */
  workspaceIds: readonly string[]
  /** These lanes are always included. */
  destinationIds: readonly string[]
  /** Looks up the oldest undelivered message as well, with one query per lane that has any. */
  withAges: boolean
}

/** The message as the API shows it. Each record keeps its own JSON text and is never re-serialized. */
export type BlockingMessage = Omit<SuccessBody<'getBlockingMessage'>, 'records'> & { recordTexts: string[] }
/** The page of records to show; 20 from the first one by default. */
export interface BlockingPage {
  from: number
  limit: number
}

/** The request as a driver gets it. Without a sample, the pipe's newest records are used. */
export type TableInferenceRequest = Omit<InferRequest, 'bodies' | 'source'> & { sample: string | null }

/** A trial of a transform, which need not be stored. */
export interface TransformTrialRequest {
  pipeId: string
  transform: Transform
  /** NDJSON; null for the newest records of the pipe. */
  sample: string | null
  /** The number of records to show, of all outcomes or of one. */
  show: { limit: number; only: TrialOutcome | null }
}

export interface TransformTrial {
  /** False: time ran out, and the result covers only the records up to then. */
  isComplete: boolean
  seen: number
  kept: number
  filtered: number
  failed: number
  /** The most frequent first. */
  faults: TransformFault[]
  shown: ShownTrial[]
  /** More records could be shown. */
  isTruncated: boolean
}

export interface ShownTrial {
  msgId: string | null
  recordIndex: number
  outcome: TrialOutcome
  /** JSON text; null when both together are too large. */
  before: string | null
  /** Null also when the record was not kept. */
  after: string | null
  error: { path: string; code: string; message: string } | null
}

export type RewindTarget = { to: 'earliest' } | { to: 'seq'; seq: number } | { to: 'time'; timeMs: number }

/** `ahead`: the target is after the lane's cursor, but a rewind only goes back. */
export type RewindResult = { kind: 'rewound'; cursorSeq: number } | { kind: 'ahead'; cursorSeq: number }

/**
 * True: the blocking message is parked and the lane continues after it. False: no message was blocking, or the
 * destination is blocked. `parked_full`: there is no room to park it; nothing has changed.
 */
export type SkipResult = boolean | 'parked_full'

export interface PullRequest {
  waitMs: number
  /** Commits everything up to this seq, then returns the first message after it. */
  afterSeq: number | null
}

export type PullResult =
  /** `json`: the whole body of the response, built once and in memory of its own, because a message can have 64 MiB. */
  | { kind: 'message'; pullId: string; msgId: string; seq: number; json: Uint8Array<ArrayBuffer> }
  | { kind: 'empty' }
  | { kind: 'not_found' }
  /** `restored`: a backup was restored, and `after_seq` is a number from after the backup. */
  | { kind: 'cursor_expired'; earliestSeq: number; reason: 'retention' | 'restored' }
  /** `after_seq` is after the pipe's newest message. */
  | { kind: 'cursor_ahead'; headSeq: number }

/** Metrics of the delivery thread, sent to the main thread for Prometheus. */
export interface DeliveryMetrics {
  /** Memory of all batches under way together. */
  inFlightBytes: number
  /** Restarts of the worker since the process started. */
  workerRestarts: number
  lanes: LaneMetrics[]
  /** Since the delivery worker started, by destination type. */
  attempts: AttemptHistograms[]
}

/** Attempts by outcome. */
export type AttemptCounts = Record<'delivered' | DeliveryErrorClass, number>

export interface LaneMetrics {
  destinationId: string
  pipeId: string
  pipeName: string
  /** Null when it has no name. */
  name: string | null
  type: DestinationType
  /** State, backlog, age and counters as the API shows them. */
  lane: LaneStatus
  attempts: AttemptCounts
  /** Seconds from acceptance to the destination, by record, since this process has the lane. */
  latency: HistogramCounts
  /** A replay of a range of messages waits or runs. */
  isReplaying: boolean
  /** Sampled records with a key that no column takes, since this process has the lane. */
  unmappedRecords: number
}

/** Current lanes. Reads change nothing. */
export interface LaneViews {
  /** The lanes of these destinations. Destinations without a lane are left out. */
  lanes(destinationIds: readonly string[]): Promise<Record<string, LaneStatus>>
  /**
   * The same lanes, limited to those that differ from the read with this revision, ignoring ages. Returns all of them
   * without a revision, and after delivery was restarted.
   */
  lanesSince(destinationIds: readonly string[], since: string | null): Promise<ChangedLanes>
  /** The result has every pipe of the list. The cost does not depend on the number of messages. */
  backlogs(pipeIds: readonly string[]): Promise<Record<string, PipeBacklog>>
  /** A page after the last record is empty. */
  blockingMessage(destinationId: string, page?: BlockingPage): Promise<BlockingMessage | null>
  /**
   * Lanes whose next message has failed, that have lost or parked messages or unmapped keys, or that were requested. Does not read the
   * buffer. Null: not every lane can be read now.
   */
  troubles(query: TroubleQuery): Promise<LaneTrouble[] | null>
  metrics(): Promise<DeliveryMetrics>
}

/** Commands that change lanes. The owner of the lane runs each in the lane's own loop. */
export interface LaneCommands {
  /** Metadata of this pipe changed (created, changed, deleted): reconcile its lanes. Resolves when done. */
  refresh(pipeId: string): Promise<void>
  skip(destinationId: string): Promise<SkipResult>
  /** Retries now. Returns the `msg_id`, or null when no message was blocking or the destination is blocked. */
  retryNow(destinationId: string): Promise<string | null>
  /** Moves to an earlier cursor, limited to messages that are kept. */
  rewind(destinationId: string, target: RewindTarget): Promise<RewindResult>
  /** Parked records were discarded or their replay was requested: the lane counts them again and starts the replay. */
  parkedChanged(destinationId: string): Promise<void>
  /** In a cluster: adds everything appended to the pipe so far to its usage. On one machine this is already done. */
  countUsage(pipeId: string): Promise<void>
}

/** For a deletion of records from the log of one machine. */
export interface Rereads {
  /** Each lane of the pipe drops the messages that it has in memory, and texts that can quote them: `Lane.reread`. */
  reread(pipeId: string): Promise<void>
}

/** A message that a pull has returned, until its outcome is known. */
export interface PulledRef {
  destinationId: string
  pullId: string
}

/** A message that a consumer has pulled and not yet acknowledged. */
export interface LeasedMessage {
  destinationId: string
  msgId: string
}

/** The consumers' side of pull lanes. */
export interface Pulls {
  /** Waits up to `waitMs` for a message. `pulled`/`abandoned` must follow a `message` result in auto mode. */
  pull(destinationId: string, request: PullRequest): Promise<PullResult>
  /** The response was passed to the socket completely: an auto lane moves on (not after `after_seq` pulls). */
  pulled(ref: PulledRef): Promise<void>
  /** The response could not be sent: the message is redelivered. */
  abandoned(ref: PulledRef): Promise<void>
  /** Explicit ack (`isDone`) or nack (redeliver now). Returns false when there is no such lease. */
  acknowledge(message: LeasedMessage, isDone: boolean): Promise<boolean>
  /** First step of the shutdown: waiting pulls resolve `empty`, later ones immediately. */
  endPulls(): Promise<void>
}

/** Trials of a destination, which needs no lane. */
export interface DestinationTrials {
  /** With `sample`, a database also inserts the pipe's newest record, or a generated one, and rolls it back. */
  test(spec: DestinationSpec, options?: { sample: boolean }): Promise<DestinationCheck[]>
  /**
   * Proposes a table for a database from a sample (NDJSON) or the pipe's newest records, and creates or extends it on
   * request. Errors are part of the proposal. Null: it did not end in time, or ended its thread.
   */
  infer(spec: DestinationSpec, request: TableInferenceRequest): Promise<TableProposal | null>
  /** Tries a transform for up to 5 s without storing anything. Rejects when the records cannot be read. */
  tryTransform(request: TransformTrialRequest): Promise<TransformTrial>
  /**
   * Deletes the state that a deleted destination's driver keeps next to the records. Best effort within 10 s; never
   * rejects for it.
   */
  forget(spec: DestinationSpec): Promise<void>
}

/** All ports of a delivery thread, for code that implements or opens it. Consumers depend on the port that they use. */
export interface Delivery extends LaneViews, LaneCommands, Pulls, DestinationTrials {}
