/**
 * Delivery as the rest of the process sees it: the port that management and pull use. `delivery-client.ts` keeps it
 * from the main thread by messages to the delivery thread, which alone owns every lane's state.
 *
 * Ids that no lane has answer as if nothing were blocking; whether the destination exists is management's question.
 */
import type { DestinationStatus, DestinationType, Lane } from '../contract/destination.ts'
import type { DestinationCheck, DestinationSpec } from '../destinations/driver.ts'

/** What a pipe's lanes have in common: for `usage_by_pipe`. */
export interface PipeBacklog {
  /** Messages after the slowest lane's cursor; everything kept when the pipe has no lane. */
  pending_messages: number
  pending_bytes: number
  /** Lanes that hold a blocking message or whose destination is blocked. */
  blocked_lanes: number
}

export interface BlockingMessage {
  msg_id: string
  stream_seq: number
  received_ts: string
  records_count: number
  /** The first 20 records, each its own JSON text: never re-serialized. */
  recordTexts: string[]
  /** True when there are more records than shown. */
  truncated: boolean
}

export type RewindTarget = { to: 'earliest' } | { to: 'seq'; seq: number } | { to: 'time'; timeMs: number }

export interface PullRequest {
  waitMs: number
  /** Commit everything up to here, then give the first message after it. */
  afterSeq: number | null
}

export type PullAnswer =
  | { kind: 'message'; pullId: string; pipeId: string; msgId: string; seq: number; recordsJson: Uint8Array }
  | { kind: 'empty' }
  | { kind: 'not_found' }
  | { kind: 'cursor_expired'; earliestSeq: number }

export interface Delivery {
  /** Metadata of this pipe changed (created, changed, deleted): reconcile its lanes. Resolves when done. */
  refresh(pipeId: string): Promise<void>
  /** The lanes of these destinations; one that has no lane yet is left out. */
  lanes(destinationIds: readonly string[]): Promise<Record<string, Lane>>
  /** Every pipe of the list is in the answer. Costs nothing per message. */
  backlogs(pipeIds: readonly string[]): Promise<Record<string, PipeBacklog>>
  /** True: moved past the blocking message. False: nothing was blocking, or the destination is blocked. */
  skip(destinationId: string): Promise<boolean>
  /** The `msg_id` that is retried now, or null when nothing was blocking or the destination is blocked. */
  retryNow(destinationId: string): Promise<string | null>
  blockingMessage(destinationId: string): Promise<BlockingMessage | null>
  /** The new cursor, clamped to what is kept. */
  rewind(destinationId: string, target: RewindTarget): Promise<number>
  test(spec: DestinationSpec): Promise<DestinationCheck[]>
  /** Waits up to `waitMs` for a message. `pulled`/`abandoned` must follow a `message` answer in auto mode. */
  pull(destinationId: string, request: PullRequest): Promise<PullAnswer>
  /** The response was wholly handed to the socket: an auto lane moves on (not after `after_seq` pulls). */
  pulled(destinationId: string, pullId: string): Promise<void>
  /** The response could not be sent: the message is given again. */
  abandoned(destinationId: string, pullId: string): Promise<void>
  /** Explicit ack (done) or nack (give it again now). False: no such lease. */
  acknowledge(destinationId: string, msgId: string, done: boolean): Promise<boolean>
  /** Shutdown, first step: every waiting pull is answered `empty`, later ones at once. */
  endPulls(): Promise<void>
}

/**
 * Settled by metadata, consumed by delivery: one destination as its lane needs it, secrets opened.
 * `revision` changes whenever anything here does; the driver is opened anew then.
 */
export interface LaneSpec extends DestinationSpec {
  readonly workspaceId: string
  readonly status: DestinationStatus
  readonly maxRetrySeconds: number
  readonly flush: FlushLimits
  readonly revision: string
}

/** The first of the three that is reached closes a batch. From the pipe's limits row, else the type's defaults. */
export interface FlushLimits {
  maxRecords: number
  maxBytes: number
  maxSeconds: number
}

/** Contract "Delivery": the flush plan of a pipe without a limits row. */
export const defaultFlushLimits: Record<DestinationType, FlushLimits> = {
  destination_database: { maxRecords: 1_000, maxBytes: 4 * 1024 * 1024, maxSeconds: 0 },
  destination_http_endpoint: { maxRecords: 1_000, maxBytes: 4 * 1024 * 1024, maxSeconds: 0 },
  destination_object_store: { maxRecords: 50_000, maxBytes: 32 * 1024 * 1024, maxSeconds: 60 },
  destination_pull: { maxRecords: 1, maxBytes: 1, maxSeconds: 0 },
}

/** One pipe with its lanes, as delivery loads it. A pipe without destinations has an empty `lanes`. */
export interface PipeLanes {
  pipeId: string
  workspaceId: string
  lanes: LaneSpec[]
}

/** Where delivery learns which lanes there are. Kept by metadata. */
export interface LaneSource {
  allPipes(): Promise<PipeLanes[]>
  /** Null when the pipe no longer exists. */
  pipe(pipeId: string): Promise<PipeLanes | null>
}

/** A lane's durable state: one row. Times are ms since the epoch. */
export interface LaneRow {
  destinationId: string
  /** The last message done with. */
  cursorSeq: number
  /** The pipe's running totals at the cursor; null until first looked up. */
  cursorTotals: { messages: number; records: number; bytes: number } | null
  /** The fixed range of the batch under way; null between batches. */
  batchFirstSeq: number | null
  batchLastSeq: number | null
  /** While the failing message is being searched for: the last message of the range known to hold it. */
  suspectLastSeq: number | null
  attempts: number
  firstFailedMs: number | null
  nextAttemptMs: number | null
  /** The message the lane stands at after a failure; null when nothing is blocking. */
  blockingMsgId: string | null
  lastError: { class: 'transient' | 'permanent'; code: string; message: string } | null
  lastDeliveredMs: number | null
  deliveredRecords: number
  skippedMessages: number
  droppedMessages: number
  /** Pull lanes with explicit ack: the message out on lease and until when. */
  leaseMsgId: string | null
  leaseUntilMs: number | null
}

/** What one lane did since its row was last saved: added to the pipe's hourly roll-up in the same transaction. */
export interface LaneCounts {
  pipeId: string
  deliveredRecords: number
  failedAttempts: number
  skippedRecords: number
}

/** Where lane state survives. One transaction per `save`; durable (fsynced) when it resolves. Kept by metadata. */
export interface LaneStore {
  load(destinationId: string): Promise<LaneRow | null>
  save(rows: readonly LaneRow[], counts: readonly LaneCounts[]): Promise<void>
}
