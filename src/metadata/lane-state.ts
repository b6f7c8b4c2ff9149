/**
 * The parts of a lane: its spec (the destination, from metadata), its durable state, the stores of both, and
 * everything outside a lane that it needs. The changes of the durable state are in `transitions.ts`.
 */
import type { OnPermanentError } from '../contract/delivery-settings.ts'
import type { DestinationStatus } from '../contract/destination.ts'
import type { SavedDrift } from '../contract/drift.ts'
import type { DeliveryErrorClass, DeliveryFault, DestinationSpec } from '../destinations/driver.ts'
import type { NumberedAttempt } from './lane-attempts.ts'
import type { LaneOwner } from './lane-ownership.ts'
import type { ParkedChange } from './parked-store-port.ts'

/**
 * Settled by metadata, consumed by delivery: one destination as its lane needs it, secrets opened.
 * `revision` changes whenever anything here does; the driver is reopened then.
 */
export type LaneSpec = DestinationSpec & {
  readonly workspaceId: string
  readonly status: DestinationStatus
  readonly maxRetrySeconds: number
  /** Unique in its pipe; for people. */
  readonly name: string
  readonly flush: FlushLimits
  /** The most requests that may be begun per second; null: as many as it takes. */
  readonly rate: { requestsPerSecond: number } | null
  /** HTTP: how many requests of one batch may be under way at the same time (1 to 32). */
  readonly concurrency: number
  /** The handling of records that the destination permanently rejects. */
  readonly onPermanentError: OnPermanentError
  /** For PinStore; it grows when the pin is reset. */
  readonly pinGeneration: number
  readonly revision: string
}

/** The first of the three that is reached closes a batch. The destination's own, else its pipe's, else the type's. */
export interface FlushLimits {
  maxRecords: number
  maxBytes: number
  maxSeconds: number
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
  /** By destination, its pipe. A destination that does not exist is left out. */
  pipesOf(destinationIds: readonly string[]): Promise<Map<string, string>>
  /**
   * The pipes that were deleted (before that time) while the buffer may have held messages of them: what it holds may go.
   */
  deletedPipes(beforeMs?: number): Promise<string[]>
  /** The buffer holds nothing of these any more. */
  forgetDeletedPipes(pipeIds: readonly string[]): Promise<void>
}

/**
 * A lane's durable state: one row, stored as it is here (`lane-row.ts`). Times are ms since the epoch. A new field gets its value for
 * rows that lack it in `newLaneState`; nothing else names every field.
 */
export interface LaneState {
  destinationId: string
  /** The last message done with. */
  cursorSeq: number
  /** Opaque JSON text: the buffer's mark at the cursor, to count messages that retention dropped later. */
  cursorMark: string | null
  /** The fixed range of the batch under way; null between batches. */
  batchFirstSeq: number | null
  batchLastSeq: number | null
  /** While a failing message is being searched for: the last message of the range known to hold it. */
  bisectLastSeq: number | null
  /**
   * The fixed range of the batch after the one under way, which nothing else may reach into: a process that ended may have
   * sent it already. Null: none is fixed yet.
   */
  nextFirstSeq: number | null
  nextLastSeq: number | null
  /** Grows with every rewind, over all of the lane's life: a destination that knows the batch from before takes it again. */
  generation: number
  /** Records of the first message after the cursor that are stored already (json_object): left out from now on. */
  recordOffset: number
  /** The batch size that worked, in records; null: the flush plan alone decides. Doubles after 8 successes in a row. */
  sizeLimitRecords: number | null
  /** Batches in a row that were delivered at that size. */
  sizeSuccesses: number
  attempts: number
  firstFailedMs: number | null
  nextAttemptMs: number | null
  /** The first undelivered message, once an attempt at it has failed; null when nothing is blocking. */
  blockingMsgId: string | null
  lastError: LaneError | null
  lastDeliveredMs: number | null
  deliveredRecords: number
  /** Left out by the destination's transform. */
  filteredRecords: number
  skippedMessages: number
  droppedMessages: number
  /** The number of attempts with each outcome, over all of the lane's life. */
  deliveredAttempts: number
  failedAttempts: number
  /** Pull lanes with explicit ack: the message out on lease and until when. */
  leaseMsgId: string | null
  leaseUntilMs: number | null
  /** The epoch of the owner that saved the row; a save with an older one than the row's fails. 0: never saved. */
  ownerEpoch: number
}

/** Counts and times that are shown and decide nothing. */
export type LaneCounters = Pick<
  LaneState,
  | 'lastDeliveredMs'
  | 'deliveredRecords'
  | 'filteredRecords'
  | 'skippedMessages'
  | 'droppedMessages'
  | 'deliveredAttempts'
  | 'failedAttempts'
>

/** A lane that has never done anything; `cursorSeq` 0: before the earliest message that is kept. */
export function newLaneState(destinationId: string, cursorSeq = 0): LaneState {
  return {
    destinationId,
    cursorSeq,
    cursorMark: null,
    batchFirstSeq: null,
    batchLastSeq: null,
    bisectLastSeq: null,
    nextFirstSeq: null,
    nextLastSeq: null,
    generation: 0,
    recordOffset: 0,
    sizeLimitRecords: null,
    sizeSuccesses: 0,
    attempts: 0,
    firstFailedMs: null,
    nextAttemptMs: null,
    blockingMsgId: null,
    lastError: null,
    lastDeliveredMs: null,
    deliveredRecords: 0,
    filteredRecords: 0,
    skippedMessages: 0,
    droppedMessages: 0,
    deliveredAttempts: 0,
    failedAttempts: 0,
    leaseMsgId: null,
    leaseUntilMs: null,
    ownerEpoch: 0,
  }
}

/** The error of the last failed attempt. */
export interface LaneError {
  class: DeliveryErrorClass
  code: string
  message: string
  /** Null: transient, or a row of before it was kept. */
  fault: DeliveryFault | null
  /** The first rejected record of the blocking message, as far as the destination names it. */
  recordIndex: number | null
  column: string | null
  value: string | null
}

/**
 * The counts of one lane since its row was last saved: added to its own and its pipe's hourly roll-ups in the same
 * transaction.
 */
export interface LaneCounts {
  destinationId: string
  pipeId: string
  deliveredRecords: number
  failedAttempts: number
  skippedRecords: number
  /** Left out by the destination's transform. */
  filteredRecords: number
  /** In the order in which it happened. */
  passed?: readonly PassedMessages[]
  attempts?: readonly NumberedAttempt[]
}

/** The outcome of a run of messages, kept for look-ups. Both ends belong to it. */
export interface PassedMessages {
  /** `rewound`: they are ahead of the lane again, and what was said of them is void. */
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'rewound'
  firstSeq: number
  lastSeq: number
  /** The last message of the batch that carried them, whose first was `firstSeq`; null: they were in none. */
  batchLastSeq: number | null
  /** ms since the epoch. */
  atMs: number
  /** At these messages, the last one included. */
  attempts: number
}

/** Another owner has saved this lane since, with a newer epoch: the lane here must stop without saving. */
export class LaneOwnershipLostError extends Error {
  readonly destinationIds: readonly string[]

  constructor(destinationIds: readonly string[]) {
    super(`lanes that another owner has taken over: ${destinationIds.join(', ')}`)
    this.name = 'LaneOwnershipLostError'
    this.destinationIds = destinationIds
  }
}

/** The store cannot save for now (no space, locked by somebody else): nothing was saved, and it is worth repeating. */
export class LaneStoreUnavailableError extends Error {
  constructor(cause: unknown) {
    super('lane state cannot be saved for now', { cause })
    this.name = 'LaneStoreUnavailableError'
  }
}

/** The row fails its checksum: no field of it says where the lane is. `counters`: what the row counts, as far as it can be read. */
export class LaneStateDamagedError extends Error {
  readonly destinationId: string
  readonly counters: LaneCounters

  constructor(destinationId: string, counters: LaneCounters) {
    super(`the stored state of lane ${destinationId} is damaged`)
    this.name = 'LaneStateDamagedError'
    this.destinationId = destinationId
    this.counters = counters
  }
}

/** Where lane state survives. One transaction per `save`; durable (fsynced) when it resolves. Kept by metadata. */
export interface LaneStore {
  /** Null: there is no such lane. Rejects with LaneStateDamagedError. */
  load(destinationId: string): Promise<LaneState | null>
  /**
   * The same for the owner under this epoch, which from then on is the only one that can save the row: what an owner before it
   * has under way is either part of what is returned or rejects. Durable when it resolves. Rejects with
   * LaneOwnershipLostError when there has been a newer owner.
   */
  take(destinationId: string, epoch: number): Promise<LaneState | null>
  /**
   * A row whose stored `ownerEpoch` is newer than its own is not saved. Rejects with LaneOwnershipLostError naming every
   * such row; then nothing of this call was saved, so that the caller can save the others again. Rejects with
   * LaneStoreUnavailableError when repeating is worth while; any other error is final. `parked`: by destination, what is
   * saved with its row.
   *
   * Repeat it with the same row objects: whether it was stored may not have been known (the server went away during the
   * commit), and a row that turns out to be stored is not saved again, nor are its counts added twice.
   */
  save(
    rows: readonly LaneState[],
    counts: readonly LaneCounts[],
    parked?: ReadonlyMap<string, readonly ParkedChange[]>,
  ): Promise<void>
  /**
   * In place of a damaged row, whose `ownerEpoch` means nothing. Durable when it resolves. A row that another owner has
   * repaired in the meantime stays as it is: `take` it afterwards.
   */
  repair(row: LaneState): Promise<void>
  /**
   * Forgets what became of the messages up to `throughSeq`, which are no longer kept, and of more than a lane may have on
   * record. In small steps. Rejects with LaneOwnershipLostError when there has been a newer owner.
   */
  pruneHistory(owner: LaneOwner, throughSeq: number): Promise<void>
}

/** The drift of each destination: the keys that no column takes (`drift.ts`). */
export interface DriftStore {
  load(destinationId: string): Promise<SavedDrift | null>
  /** Saves nothing for a deleted destination. Rejects with LaneOwnershipLostError when there has been a newer owner. */
  save(owner: LaneOwner, drift: SavedDrift): Promise<void>
}

/** The keys of database servers whose certificate is not verified, pinned on first use. Kept by metadata. */
export interface PinStore {
  /**
   * Pins the key (SHA-256, hex) if none is pinned, and returns the one that is: durable when it resolves. Null: the
   * destination is gone, or its pin was reset or its server changed since its spec had this `generation`. Rejects with
   * StorageUnavailableError when nothing can be stored for now.
   */
  pin(
    destinationId: string,
    generation: number,
    sha256: string,
  ): Promise<{ sha256: string; isNew: boolean } | null>
}
