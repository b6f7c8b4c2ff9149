/**
 * The interface of a lane, one destination's position in its pipe's messages. A push lane (`push-lane.ts`) delivers
 * through a driver; a pull lane (`pull-lane.ts`) waits for consumers. Both extend `lane-core.ts`.
 *
 * Both keep their state in a `DurableState` and run requests as commands of a `Mailbox`, one after the other, in their
 * own loop. An error there that the destination did not cause (a failed save or read) ends the lane and, through
 * `start()`, the delivery worker: a lane that cannot save must not look alive.
 *
 * A lane ends in one of three ways:
 *   closed       the process stops: everything is saved
 *   removed      the destination was deleted: nothing is saved, its row is gone
 *   handed over  another process owns the lane's pipe now: nothing is saved, because the row belongs to that process.
 *                A save that fails with LaneOwnershipLostError ends the lane in the same way, by itself.
 */
import type { LaneStatus } from '../contract/destination.ts'
import type { Epoch } from '../contract/epochs.ts'
import type { DestinationDriver } from '../destinations/driver.ts'
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import type { ReplicaBarrier } from '../log/replica-barrier.ts'
import type { LaneChange, LaneCounts, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import type { HistogramCounts } from '../platform/histogram.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptSteps } from './attempt.ts'
import type { Clock, EventLoopTurns } from './clock.ts'
import type { AttemptCounts, PullRequest, PullResult, RewindResult, SkipResult } from './delivery.ts'
import type { AttemptsObserved } from './lane-log.ts'
import type { MemoryBudget } from './memory-budget.ts'
import type { Parking } from './parking.ts'
import type { PatientReader } from './read-ahead.ts'

export type LaneEnd = 'closed' | 'removed' | 'handed over'

/** The log tells the lanes of a pipe. None of these waits. */
export interface LogNotices {
  /** The pipe has new messages. */
  notify(): void
  /** Reports the pipe's newest message: wakes a lane that is behind it and waits for messages. */
  notifyHead(seq: number): void
  /** Records were deleted from the log: messages in memory are read again before they are sent. */
  notifyErased(): void
  /** Retention dropped messages: the lane counts its losses, even while it waits. */
  notifyDropped(): void
}

export interface Lane extends LogNotices {
  readonly spec: LaneSpec
  /** The epoch of the ownership with which it was opened. */
  readonly epoch: number
  /** A new object after each change. */
  readonly row: LaneState
  /** The lane has failed for longer than `destination_max_retry_seconds`. */
  readonly isStalled: boolean
  /** The cursor from which a restart would continue. Low watermarks use only this one. */
  readonly savedCursorSeq: number
  /** Since the process started, without aborted attempts. */
  readonly attempts: AttemptCounts
  /** Seconds from acceptance to the destination, by record, since the lane was opened. */
  readonly latency: HistogramCounts
  /** A new object after each change. */
  readonly parked: ParkedCounts
  readonly view: LaneView
  /** The consumers' side of a pull lane; null for a lane that pushes. */
  readonly consumers: PullConsumers | null

  /** Runs until the lane has ended. Rejects on an unrecoverable error. Called once. */
  start(): Promise<void>

  /**
   * True: the message is parked and the lane continues after it. False: no message is blocking, or the destination is
   * blocked. `parked_full`: there is no room to park it; nothing has changed.
   */
  skip(): Promise<SkipResult>
  /** Returns the `msg_id` that is retried now; null in the cases in which `skip` returns false. */
  retryNow(): Promise<string | null>
  /** `find` returns the requested cursor. It is called when the command runs. */
  rewind(find: () => Promise<number>): Promise<RewindResult>
  /** Parked records were discarded, or their replay was requested. */
  parkedChanged(): Promise<void>
  /**
   * Records were deleted from the log: drops the messages in memory and the texts of errors, which can quote them. When it
   * resolves, nothing of the deleted records can be attempted or parked, and the row has no text of them.
   */
  reread(): Promise<void>
  /** The destination was changed: the failed batch is retried immediately with the new settings. */
  reconfigure(spec: LaneSpec): Promise<void>

  /**
   * Resolves when the lane has ended. Rejects with the unrecoverable error of `start()`, never for a lost ownership.
   * When the lane is closed, an attempt under way can finish within `graceMs`; then it is aborted, which does not count
   * as an attempt.
   */
  end(how: LaneEnd, graceMs?: number): Promise<void>
}

/** Reads of a lane that never wait for the lane's work. */
export interface LaneView {
  status(): Promise<LaneStatus>
  /** The messages after the cursor, and whether the lane has a blocking message or a blocked destination. */
  backlog(): Promise<LaneBacklog>
  /** The message that blocks the lane; null when there is none or it is no longer kept. */
  blockingMessage(): Promise<MarkedMessage | null>
}

export interface LaneBacklog {
  messages: number
  bytes: number
  isStuck: boolean
}

/** docs/dev/contract.md#pull. `Delivery` documents the methods. */
export interface PullConsumers {
  pull(request: PullRequest): Promise<PullResult>
  pulled(pullId: string): Promise<void>
  abandoned(pullId: string): Promise<void>
  acknowledge(msgId: string, isDone: boolean): Promise<boolean>
  /** Every waiting and every later pull resolves `empty`. */
  endPulls(): void
}

/** The environment of a lane, so that tests can run one in-process and advance time. */
export interface LaneDeps {
  /** For the lane's own work: it waits while the buffer cannot be read. */
  readonly reader: PatientReader
  /** For requests about the lane: it rejects instead of waiting. */
  readonly viewReader: BufferReader
  openDriver(spec: LaneSpec): DestinationDriver
  readonly steps: AttemptSteps
  /** Durable when it resolves. */
  save(row: LaneState, counts: LaneCounts | null, parked: readonly LaneChange[]): Promise<void>
  /** The parked records of the lane. */
  readonly parking: Parking
  readonly clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
  readonly log: Logger
  readonly observed: AttemptsObserved
  readonly budget: MemoryBudget
  /** Limits the reads of all pull lanes to one per turn of the event loop. */
  readonly pullTurns: EventLoopTurns
  /** The epochs of the data directory: a consumer's seq can be from a timeline that a restore has ended. */
  readonly epochs: readonly Epoch[]
  /** A range is in the replica before it is sent. Null: nothing waits for a replica. */
  readonly replica: ReplicaBarrier | null
  /** True while this process owns the lane. Checked before every attempt, and before a message is handed to a consumer. */
  isOwned(): boolean
  /** The epoch of the ownership with which the lane was opened. Every save carries it. */
  readonly epoch: number
  /** Called when the saved cursor has possibly moved. */
  onSaved(): void
}
