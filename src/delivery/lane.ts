/**
 * A lane: one destination's position in its pipe's messages. The interface; a push lane (`push-lane.ts`) delivers by
 * itself through a driver, a pull lane (`pull-lane.ts`) waits for consumers to fetch. `lane-core.ts` is what both share.
 *
 * Both keep their state in a `DurableState` and run what is asked of them as commands of a `Mailbox`, one after the
 * other, in their own loop. Any error there that is not the destination's (a save or a read that failed) ends the lane
 * and, through `start()`, the delivery worker: a lane that can no longer save must not look alive.
 *
 * A lane ends in one of three ways:
 *   closed       the process stops: everything is saved
 *   removed      the destination was deleted: nothing is saved, its row is gone
 *   handed over  another process owns the lane's pipe now: nothing is saved, its row is the other's.
 *                A save that fails with LaneOwnershipLostError ends the lane in the same way, by itself.
 */
import type { LaneStatus } from '../contract/destination.ts'
import type { Epoch } from '../contract/epochs.ts'
import type { DestinationDriver } from '../destinations/driver.ts'
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import type { LaneCounts, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedChange, ParkedCounts } from '../metadata/parked-store-port.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptSteps } from './attempt.ts'
import type { AttemptsObserved } from './attempts-observed.ts'
import type { Clock, EventLoopTurns } from './clock.ts'
import type { AttemptCounts, PullRequest, PullResult, RewindResult, SkipResult } from './delivery.ts'
import type { MemoryBudget } from './memory-budget.ts'
import type { Parking } from './parked/parking.ts'
import type { PatientReader } from './patient-reader.ts'

export type LaneEnd = 'closed' | 'removed' | 'handed over'

export interface Lane {
  readonly spec: LaneSpec
  /** The epoch of the ownership under which it was opened. */
  readonly epoch: number
  /** Another object with every change. */
  readonly row: LaneState
  /** It has failed for longer than `destination_max_retry_seconds`. */
  readonly isStalled: boolean
  /** The cursor a restart would begin with: low watermarks are made of this one only. */
  readonly savedCursorSeq: number
  /** Since this process began. An attempt that was aborted counts nowhere. */
  readonly attempts: AttemptCounts
  /** Another object with every change. */
  readonly parked: ParkedCounts
  readonly view: LaneView
  /** The consumers' side of a pull lane; null for a lane that pushes. */
  readonly consumers: PullConsumers | null

  /** Runs until the lane has ended. Rejects on an unrecoverable error. Called once. */
  start(): Promise<void>
  /** The pipe has new messages. */
  notify(): void
  /** The pipe's newest message is this one: wakes a lane that waits for messages although it has not come so far. */
  notifyHead(seq: number): void
  /** Retention dropped something: the lane counts what it has lost, even while it waits. */
  notifyDropped(): void

  /**
   * True: parked, and moved past it. False: nothing is blocking, or the destination is blocked by status. `parked_full`: there
   * is no room to park it, and nothing has changed.
   */
  skip(): Promise<SkipResult>
  /** The `msg_id` that is tried again at once; null in the cases in which `skip` returns false. */
  retryNow(): Promise<string | null>
  /** `find` returns the cursor asked for; it is looked up when the command's turn comes. */
  rewind(find: () => Promise<number>): Promise<RewindResult>
  /** Parked records were discarded, or their replay was asked for. */
  parkedChanged(): Promise<void>
  /** The destination was changed: what failed is tried again at once, as it is now. */
  reconfigure(spec: LaneSpec): Promise<void>

  /**
   * Resolves when the lane has ended. Rejects with the unrecoverable error of `start()`, never for a lost ownership. An attempt under way can finish for `graceMs` when the lane is closed, then it
   * is aborted, which is not an attempt.
   */
  end(how: LaneEnd, graceMs?: number): Promise<void>
}

/** Reads of a lane, which wait for nothing that the lane does. */
export interface LaneView {
  status(): Promise<LaneStatus>
  /** The messages after the cursor, and whether the lane has a blocking message or is blocked by status. */
  backlog(): Promise<LaneBacklog>
  /** The message that blocks the lane, if there is one and it is still kept. */
  blockingMessage(): Promise<MarkedMessage | null>
}

export interface LaneBacklog {
  messages: number
  bytes: number
  isStuck: boolean
}

/** docs/dev/contract.md#pull. What these promise is on `Delivery`. */
export interface PullConsumers {
  pull(request: PullRequest): Promise<PullResult>
  pulled(pullId: string): Promise<void>
  abandoned(pullId: string): Promise<void>
  acknowledge(msgId: string, done: boolean): Promise<boolean>
  /** Every waiting pull resolves `empty`, and so does every later one. */
  endPulls(): void
}

/** Everything outside a lane, so that tests can run one in-process and let time jump. */
export interface LaneDeps {
  /** For the lane itself: it waits while the buffer cannot be read. */
  readonly reader: PatientReader
  /** For who asks about the lane: it rejects instead. */
  readonly viewReader: BufferReader
  openDriver(spec: LaneSpec): DestinationDriver
  readonly steps: AttemptSteps
  /** Durable when it resolves. */
  save(row: LaneState, counts: LaneCounts | null, parked: readonly ParkedChange[]): Promise<void>
  /** The parked records of the lane. */
  readonly parking: Parking
  readonly clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
  readonly log: Logger
  readonly observed: AttemptsObserved
  readonly budget: MemoryBudget
  /** The turns of the reads of all pull lanes. */
  readonly pullTurns: EventLoopTurns
  /** The epochs of the data directory: a seq from a consumer may be of a timeline that a restore has ended. */
  readonly epochs: readonly Epoch[]
  /** Whether it still is the owner's lane. Asked before every attempt, and before a message is handed to a consumer. */
  isOwned(): boolean
  /** The epoch of the ownership under which the lane was opened: every save carries it. */
  readonly epoch: number
  /** The saved cursor may have moved. */
  onSaved(): void
}
