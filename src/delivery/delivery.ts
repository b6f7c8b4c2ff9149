/**
 * Delivery as the rest of the process sees it: four ports, one for each kind of consumer. `delivery-proxy.ts` implements them in
 * the main thread by messages to the delivery thread, which alone owns every lane's state.
 *
 * An id without a lane is treated as a lane that nothing blocks; whether the destination exists is checked by management.
 */
import type { DestinationType, LaneStatus } from '../contract/destination.ts'
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
import type { AttemptHistograms } from './attempts-observed.ts'

/** The backlog that a pipe's lanes have in common: for `usage_by_pipe`. */
export interface PipeBacklog {
  /** Messages after the slowest lane's cursor; everything kept when the pipe has no lane. */
  pending_messages: number
  pending_bytes: number
  /** Lanes with a blocking message or whose destination is blocked. */
  blocked_lanes: number
}

/** The lanes that have changed since an earlier read. */
export interface ChangedLanes {
  /** For the next look. */
  revision: string
  lanes: Record<string, LaneStatus>
  /** In a cluster: those that the node which was asked does not run. */
  absent?: readonly string[]
}

/** The facts about one lane from which alerts are made. Times are ms since the epoch. */
export interface LaneTrouble {
  workspaceId: string
  pipeId: string
  destinationId: string
  /** The destination is blocked: nothing is tried, so nothing fails and nothing recovers. */
  isHalted: boolean
  /** The failure of the first undelivered message; null: no attempt at it has failed. */
  failure: LaneFailure | null
  /** Nothing is known to wait. */
  isIdle: boolean
  lastDeliveredMs: number | null
  droppedMessages: number
  /** Parked now; a message that is parked as a whole counts once. */
  parkedRecords: number
  /** When the oldest undelivered message was received; null: there is none, or nobody asked. */
  oldestPendingMs: number | null
}

export interface LaneFailure {
  msgId: string
  attempts: number
  firstFailedMs: number
  /** It was rejected for good, alone. */
  isStuck: boolean
  /** For longer than `destination_max_retry_seconds`. */
  isStalled: boolean
  error: { class: DeliveryErrorClass; code: string; message: string; fault: DeliveryFault | null } | null
}

export interface TroubleQuery {
  /** Only these workspaces. */
  workspaceIds: readonly string[]
  /** These lanes whatever they do. */
  destinationIds: readonly string[]
  /** Looks for the oldest undelivered message of each lane too, which takes a query for each that has any. */
  withAges: boolean
}

/** As the API shows it; of its records (the first 20) each one's own JSON text, never re-serialized. */
export type BlockingMessage = Omit<SuccessBody<'getBlockingMessage'>, 'records'> & { recordTexts: string[] }
/** Which of its records; 20 from the first one on where not given. */
export interface BlockingPage {
  from: number
  limit: number
}

/** As a driver gets it; without a sample the pipe's newest records are looked at. */
export type TableInferenceRequest = Omit<InferRequest, 'bodies' | 'source'> & { sample: string | null }

/** A trial of a transform, which need not be stored. */
export interface TransformTrialRequest {
  pipeId: string
  transform: Transform
  /** NDJSON; null: the newest records of the pipe. */
  sample: string | null
  /** The number of records to show with their result, of all outcomes or of one. */
  show: { limit: number; only: TrialOutcome | null }
}

export interface TransformTrial {
  /** False: the time ran out, and what follows is of the records until then. */
  isComplete: boolean
  seen: number
  kept: number
  filtered: number
  failed: number
  /** The commonest first. */
  faults: TransformFault[]
  shown: ShownTrial[]
  /** There are more to show. */
  isTruncated: boolean
}

export interface ShownTrial {
  msgId: string | null
  recordIndex: number
  outcome: TrialOutcome
  /** JSON text; null where both together are too large. */
  before: string | null
  /** Null also where it was not kept. */
  after: string | null
  error: { path: string; code: string; message: string } | null
}

export type RewindTarget = { to: 'earliest' } | { to: 'seq'; seq: number } | { to: 'time'; timeMs: number }

/** `ahead`: the target is after the lane's cursor; a rewind only goes back. */
export type RewindResult = { kind: 'rewound'; cursorSeq: number } | { kind: 'ahead'; cursorSeq: number }

/**
 * True: the blocking message is parked, and the lane past it. False: nothing was blocking, or the destination is blocked.
 * `parked_full`: there is no room to park it, and nothing has changed.
 */
export type SkipResult = boolean | 'parked_full'

export interface PullRequest {
  waitMs: number
  /** Commit everything up to here, then return the first message after it. */
  afterSeq: number | null
}

export type PullResult =
  /** `json`: the whole body of the response, made once and in memory of its own, since a message may have 64 MiB. */
  | { kind: 'message'; pullId: string; msgId: string; seq: number; json: Uint8Array<ArrayBuffer> }
  | { kind: 'empty' }
  | { kind: 'not_found' }
  /** `restored`: a backup was restored, and `after_seq` is a number from after the backup. */
  | { kind: 'cursor_expired'; earliestSeq: number; reason: 'retention' | 'restored' }
  /** `after_seq` is after the pipe's newest message. */
  | { kind: 'cursor_ahead'; headSeq: number }

/** The delivery thread's numbers, as they cross to the main thread for Prometheus. */
export interface DeliveryMetrics {
  /** Memory that all batches under way take together. */
  inFlightBytes: number
  /** How often a worker was started again since the process began. */
  workerRestarts: number
  lanes: LaneMetrics[]
  /** Since the delivery worker was started, by the type of the destination. */
  attempts: AttemptHistograms[]
}

/** Attempts by how they ended. */
export type AttemptCounts = Record<'delivered' | DeliveryErrorClass, number>

export interface LaneMetrics {
  destinationId: string
  pipeId: string
  pipeName: string
  /** Null: it has none. */
  name: string | null
  type: DestinationType
  /** State, backlog, age and counters, as the API shows them. */
  lane: LaneStatus
  attempts: AttemptCounts
}

/** Lanes as they are now. Reads change nothing. */
export interface LaneViews {
  /** The lanes of these destinations; one that has no lane yet is left out. */
  lanes(destinationIds: readonly string[]): Promise<Record<string, LaneStatus>>
  /**
   * The same, of those that are different since the look that gave this revision, their ages aside; all of them when there was none, or
   * delivery was started again since.
   */
  lanesSince(destinationIds: readonly string[], since: string | null): Promise<ChangedLanes>
  /** Every pipe of the list is in the result. Costs nothing per message. */
  backlogs(pipeIds: readonly string[]): Promise<Record<string, PipeBacklog>>
  /** A page from beyond its last record has no records. */
  blockingMessage(destinationId: string, page?: BlockingPage): Promise<BlockingMessage | null>
  /**
   * Lanes whose next message has failed, that have lost or parked messages, or that were asked for: without a look into the buffer.
   * Null: not every lane can be asked now.
   */
  troubles(query: TroubleQuery): Promise<LaneTrouble[] | null>
  metrics(): Promise<DeliveryMetrics>
}

/** Changes of lanes. Each is done by the owner of the lane, in the lane's own loop. */
export interface LaneCommands {
  /** Metadata of this pipe changed (created, changed, deleted): reconcile its lanes. Resolves when done. */
  refresh(pipeId: string): Promise<void>
  skip(destinationId: string): Promise<SkipResult>
  /** The `msg_id` that is retried now, or null when nothing was blocking or the destination is blocked. */
  retryNow(destinationId: string): Promise<string | null>
  /** To an earlier cursor, clamped to what is kept. */
  rewind(destinationId: string, target: RewindTarget): Promise<RewindResult>
  /** Parked records were discarded, or their replay was asked for: the lane counts them again and begins. */
  parkedChanged(destinationId: string): Promise<void>
  /** In a cluster: what was appended to the pipe so far is part of its usage. On one machine it is already. */
  countUsage(pipeId: string): Promise<void>
}

/** The consumers' side of pull lanes. */
export interface Pulls {
  /** Waits up to `waitMs` for a message. `pulled`/`abandoned` must follow a `message` result in auto mode. */
  pull(destinationId: string, request: PullRequest): Promise<PullResult>
  /** The response was wholly handed to the socket: an auto lane moves on (not after `after_seq` pulls). */
  pulled(destinationId: string, pullId: string): Promise<void>
  /** The response could not be sent: the message is redelivered. */
  abandoned(destinationId: string, pullId: string): Promise<void>
  /** Explicit ack (done) or nack (redeliver now). False: no such lease. */
  acknowledge(destinationId: string, msgId: string, done: boolean): Promise<boolean>
  /** Shutdown, first step: every waiting pull resolves `empty`, later ones at once. */
  endPulls(): Promise<void>
}

/** Trials of a destination next to its lane; it need not have one. */
export interface DestinationTrials {
  /** `sample`: a database also inserts the pipe's newest record, or a made-up one, and rolls it back. */
  test(spec: DestinationSpec, options?: { sample: boolean }): Promise<DestinationCheck[]>
  /**
   * Proposes a table for a database from a sample (NDJSON) or the pipe's newest records, and creates or extends it where
   * asked to. What fails there is in the proposal; null: it did not end in time, or ended its thread.
   */
  infer(spec: DestinationSpec, request: TableInferenceRequest): Promise<TableProposal | null>
  /** Tries a transform within 5 s: nothing is stored. Rejects when the records cannot be read. */
  tryTransform(request: TransformTrialRequest): Promise<TransformTrial>
  /**
   * Removes the state that a deleted destination's driver keeps next to the records. Best effort, within 10 s; never
   * rejects for it.
   */
  forget(spec: DestinationSpec): Promise<void>
}

/** Everything that a delivery thread does for others: for what implements or opens it. Consumers take the port that they use. */
export interface Delivery extends LaneViews, LaneCommands, Pulls, DestinationTrials {}
