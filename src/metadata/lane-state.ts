/**
 * The types of a lane that metadata stores and delivery uses: its spec (the destination), its durable state, and the
 * stores of both. The changes of the durable state are in `transitions.ts`.
 */
import type { DeliveryAttempt } from '../contract/attempts.ts'
import type { OnPermanentError } from '../contract/delivery-settings.ts'
import type { DestinationStatus } from '../contract/destination.ts'
import type { SavedDrift } from '../contract/drift.ts'
import type { DeliveryErrorClass, DeliveryFault, DestinationSpec } from '../destinations/driver.ts'
import type { Cursor } from '../log/buffer.ts'
import type { SparseCounts } from '../platform/histogram.ts'
import type { LaneOwner, LaneOwnership } from './lane-ownership.ts'
import type { ParkedChange } from './parked-store-port.ts'

/**
 * One destination as its lane needs it, with secrets in the clear. Metadata creates it, delivery reads it. `revision`
 * changes whenever any other field does; the driver is then reopened.
 */
export type LaneSpec = DestinationSpec & {
  readonly workspaceId: string
  readonly status: DestinationStatus
  readonly maxRetrySeconds: number
  /** Unique in its pipe. Used for display only. */
  readonly name: string
  readonly flush: FlushLimits
  /** The most requests that may start per second; null: unlimited. */
  readonly rate: { requestsPerSecond: number } | null
  /** HTTP only: the number of concurrent requests of one batch (1 to 32). */
  readonly concurrency: number
  /** The handling of records that the destination permanently rejects. */
  readonly onPermanentError: OnPermanentError
  /** Grows when the pin is reset; see PinStore. */
  readonly pinGeneration: number
  /** The number of columns that were added to its table. A driver that matches columns by name is opened again for new ones. */
  readonly addedColumns?: number
  readonly revision: string
}

/**
 * The limits of a batch: it is closed when the first of the three is reached. They are the destination's own, or else
 * its pipe's, or else the default of the type.
 */
export interface FlushLimits {
  maxRecords: number
  maxBytes: number
  maxSeconds: number
}

/** One pipe with its lanes, as delivery loads it. `lanes` is empty for a pipe without destinations. */
export interface PipeLanes {
  pipeId: string
  workspaceId: string
  /** Messages that are older are dropped. Null: the limits of the daemon. */
  retentionHours: number | null
  lanes: LaneSpec[]
}

/** The source of the lanes that delivery runs. Implemented by metadata. */
export interface LaneSource {
  allPipes(): Promise<PipeLanes[]>
  /** Null when the pipe no longer exists. */
  pipe(pipeId: string): Promise<PipeLanes | null>
  /** Returns the pipe of each destination, by destination id. Destinations that do not exist are left out. */
  pipesOf(destinationIds: readonly string[]): Promise<Map<string, string>>
  /**
   * Returns pipes that were deleted (before that time) while the buffer may have held their messages. The buffer can
   * drop those messages.
   */
  deletedPipes(beforeMs?: number): Promise<string[]>
  /** Removes these pipes from the list of deleted ones: the buffer no longer holds their messages. */
  forgetDeletedPipes(pipeIds: readonly string[]): Promise<void>
}

/**
 * A lane's durable state, stored as one row (`lane-store.ts`). Times are ms since the epoch. For rows that lack a new
 * field, `newLaneState` provides its value; no other code lists every field.
 */
export interface LaneState {
  destinationId: string
  /** The lane is done with this message and all before it. */
  cursorSeq: number
  /** Opaque JSON text: the buffer's mark at the cursor, to count messages that retention dropped later. */
  cursorMark: string | null
  /** The fixed range of the current batch; null between batches. */
  batchFirstSeq: number | null
  batchLastSeq: number | null
  /** Set during the search for a failing message: the last message of the range known to contain it. */
  bisectLastSeq: number | null
  /**
   * The fixed range of the batch after the current one. No other batch may include its messages, because the process
   * may have sent it before it ended. Null: no range is fixed.
   */
  nextFirstSeq: number | null
  nextLastSeq: number | null
  /** The fixed ranges after the next one, in order. The same rules apply to them. Null: there are none. */
  laterRanges: readonly SeqRange[] | null
  /**
   * Grows with every rewind and is never reset, so that a destination does not take repeated messages for a batch that
   * it knows.
   */
  generation: number
  /** The greatest cursor that a rewind has left: the lane had delivered the messages up to it before. */
  rewoundFromSeq: number | null
  /** Records of the first message after the cursor that are stored already (json_object). They are not sent again. */
  recordOffset: number
  /**
   * The batch size that worked, in records; null: only the flush plan limits it. It doubles after 8 successes in a row.
   */
  sizeLimitRecords: number | null
  /** Consecutive batches delivered at that size. */
  sizeSuccesses: number
  attempts: number
  firstFailedMs: number | null
  nextAttemptMs: number | null
  /** The first undelivered message, set once an attempt at it has failed; null: the lane is not blocked. */
  blockingMsgId: string | null
  lastError: LaneError | null
  lastDeliveredMs: number | null
  deliveredRecords: number
  /** Records removed by the destination's transform. */
  filteredRecords: number
  skippedMessages: number
  droppedMessages: number
  /** The number of attempts with each outcome, over all of the lane's life. */
  deliveredAttempts: number
  failedAttempts: number
  /** Pull lanes with explicit ack: the message out on lease and until when. */
  leaseMsgId: string | null
  leaseUntilMs: number | null
  /** The epoch of the owner that saved the row. A save with an older epoch than the row's fails. 0: never saved. */
  ownerEpoch: number
}

/** A fixed range of messages, both ends included. */
export type SeqRange = readonly [firstSeq: number, lastSeq: number]

/** The fixed ranges after the current one, in the order in which they are sent. */
export function nextRanges({ nextFirstSeq, nextLastSeq, laterRanges }: NextRanges): readonly SeqRange[] {
  const later = laterRanges ?? []
  return nextFirstSeq === null || nextLastSeq === null ? later : [[nextFirstSeq, nextLastSeq], ...later]
}

export type NextRanges = Pick<LaneState, 'nextFirstSeq' | 'nextLastSeq' | 'laterRanges'>

/** The fields of the row for these ranges. */
export function asNextRanges([next, ...later]: readonly SeqRange[]): NextRanges {
  const [nextFirstSeq, nextLastSeq] = next ?? [null, null]
  return { nextFirstSeq, nextLastSeq, laterRanges: later.length === 0 ? null : later }
}

/** The last message of all fixed ranges; 0: no range is fixed. No process has sent a message after it. */
export function fixedThrough(row: LaneState): number {
  const next = nextRanges(row).at(-1)
  return Math.max(row.batchLastSeq ?? 0, row.bisectLastSeq ?? 0, next?.[1] ?? 0)
}

/** Counts and times that are only displayed. */
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

/** The state of a lane that has not delivered anything. `cursorSeq` 0: before the earliest message that is kept. */
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
    laterRanges: null,
    generation: 0,
    rewoundFromSeq: null,
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

/**
 * The fields of a state that are stored as JSON: those with a value. Uses a loop over the names: `Object.entries` of a
 * copy would cost 1.7 µs more per row, of 14 µs.
 */
export function storedFields(lane: LaneState): Partial<Record<keyof LaneState, unknown>> {
  const fields: Partial<Record<keyof LaneState, unknown>> = {}
  for (const name in lane) {
    if (!isField(name) || lane[name] === null) continue
    fields[name] = lane[name]
  }
  return fields
}

/** The two other fields have columns. */
function isField(name: string): name is Exclude<keyof LaneState, 'destinationId' | 'ownerEpoch'> {
  return name !== 'destinationId' && name !== 'ownerEpoch'
}

/** The error of the last failed attempt. */
export interface LaneError {
  class: DeliveryErrorClass
  code: string
  message: string
  /** Null: the error is transient, or the row is older than this field. */
  fault: DeliveryFault | null
  /** The first rejected record of the blocking message, if the destination names it. */
  recordIndex: number | null
  column: string | null
  value: string | null
}

/**
 * The counts of one lane since its row was last saved. They are added to the hourly roll-ups of the lane and its pipe
 * in the transaction that saves the row.
 */
export interface LaneCounts {
  destinationId: string
  pipeId: string
  deliveredRecords: number
  failedAttempts: number
  skippedRecords: number
  /** Records removed by the destination's transform. */
  filteredRecords: number
  /** In the order in which they happened. */
  passed?: readonly PassedMessages[]
  attempts?: readonly NumberedAttempt[]
  latency?: readonly LatencyOfHour[]
}

/** Nothing has happened since the row was last saved. */
export function noCounts({
  destinationId,
  pipeId,
}: Pick<LaneCounts, 'destinationId' | 'pipeId'>): LaneCounts {
  return {
    destinationId,
    pipeId,
    deliveredRecords: 0,
    failedAttempts: 0,
    skippedRecords: 0,
    filteredRecords: 0,
  }
}

/** The outcome of a run of messages, kept for look-ups. `firstSeq` and `lastSeq` belong to the run. */
export interface PassedMessages {
  /** `rewound`: the lane will deliver these messages again, and their earlier outcome is void. */
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'rewound'
  firstSeq: number
  lastSeq: number
  /** The last message of the batch that began with `firstSeq`; null: the messages were in no batch. */
  batchLastSeq: number | null
  /** ms since the epoch. */
  atMs: number
  /** The number of attempts at these messages, including the last one. */
  attempts: number
}

/** Another owner with a newer epoch has saved this lane: the lane must stop here without saving. */
export class LaneOwnershipLostError extends Error {
  readonly destinationIds: readonly string[]

  constructor(destinationIds: readonly string[]) {
    super(`another owner has taken over these lanes: ${destinationIds.join(', ')}`)
    this.name = 'LaneOwnershipLostError'
    this.destinationIds = destinationIds
  }
}

/**
 * The store cannot save at the moment (no space, or locked by another process). Nothing was saved, and the caller can
 * repeat the call.
 */
export class LaneStoreUnavailableError extends Error {
  constructor(cause: unknown) {
    super('lane state cannot be saved at the moment', { cause })
    this.name = 'LaneStoreUnavailableError'
  }
}

/**
 * The row fails its checksum, so the lane's position is unknown. `counters`: the row's counts, as far as they can be
 * read.
 */
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

/**
 * The progress of a replay of a range of messages. Its position has the fields of a lane's state, with the same meaning:
 * the replay moves through its range as a lane moves through its pipe.
 */
export interface ReplayProgress {
  position: LaneState
  /** Times are ms since the epoch. Null: it has not begun. */
  startedMs: number | null
  /** The messages up to the cursor of the position. */
  doneMessages: number
  parkedRecords: number
  /** Records of messages that were not kept any more, or damaged. `position.droppedMessages` counts the messages. */
  expiredRecords: number
  /**
   * The number of the current batch at destinations that store their own progress, as `Replay.replayNo`. Null: there is
   * none.
   */
  batchNo: number | null
}

/** One replay of a range that is to be delivered. */
export interface RangeReplay {
  replayId: string
  /** The last message of the range. */
  throughSeq: number
  /** The position before the range, to count its messages. */
  after: Cursor
  state: 'waiting' | 'running'
  progress: ReplayProgress
}

/** The progress of a replay. One that was cancelled meanwhile stays so. */
export interface RangeChange {
  kind: 'range'
  replayId: string
  state: 'running' | 'done' | 'failed'
  progress: ReplayProgress
}

/** A change that is stored in the transaction that saves the lane's row. */
export type LaneChange = ParkedChange | RangeChange

/** Replays of ranges, for the owner of the lane. Their progress is saved with the lane's row. */
export interface RangeStore {
  /** Returns the replay of a range that runs, or else the oldest that waits. */
  nextRange(destinationId: string): Promise<RangeReplay | null>
  /**
   * Returns a number as `ParkedStore.beginReplay` does, for a batch of a replay of a range. Durable when it resolves.
   * Rejects with LaneOwnershipLostError if there has been a newer owner.
   */
  numberRange(owner: LaneOwner): Promise<number>
}

/** Stores lane state. One transaction per `save`; durable (fsynced) when it resolves. Implemented by metadata. */
export interface LaneStore {
  /** Null: there is no such lane. Rejects with LaneStateDamagedError. */
  load(destinationId: string): Promise<LaneState | null>
  /**
   * Loads the lane for the owner with this epoch. From then on no other owner can save the row: a concurrent save of an
   * earlier owner is either part of the returned state or rejects. Durable when it resolves. Rejects with
   * LaneOwnershipLostError if there has been a newer owner.
   */
  take(destinationId: string, epoch: number): Promise<LaneState | null>
  /**
   * Saves rows, their counts and, by destination, changes of their parked records and replays. Rejects with LaneOwnershipLostError
   * if rows have a newer stored `ownerEpoch`. The error names all of them, and nothing was saved, so that the caller
   * can save the other rows again. Rejects with LaneStoreUnavailableError if the call can be repeated; any other error
   * is final.
   *
   * Repeat a call with the same row objects. Its outcome may be unknown, because the server disconnected during the
   * commit. Rows that turn out to be stored are not saved again, and their counts are not added twice.
   */
  save(
    rows: readonly LaneState[],
    counts: readonly LaneCounts[],
    parked?: ReadonlyMap<string, readonly LaneChange[]>,
  ): Promise<void>
  /**
   * Replaces a damaged row, whose `ownerEpoch` cannot be trusted. Durable when it resolves. A row that another owner
   * has repaired in the meantime is left unchanged: call `take` afterwards.
   */
  repair(row: LaneState): Promise<void>
  /**
   * Removes the history of messages up to `throughSeq`, which are no longer kept, and history above the limit per lane.
   * Runs in small steps. Rejects with LaneOwnershipLostError if there has been a newer owner.
   */
  pruneHistory(owner: LaneOwner, throughSeq: number): Promise<void>
}

/** Stores the drift of each destination: the keys in its records that match no column (`drift.ts`). */
export interface DriftStore {
  load(destinationId: string): Promise<SavedDrift | null>
  /** Saves nothing for a deleted destination. Rejects with LaneOwnershipLostError if there has been a newer owner. */
  save(owner: LaneOwner, drift: SavedDrift): Promise<void>
}

/**
 * Stores the keys of database servers whose certificate is not verified; they are pinned on first use. Implemented by
 * metadata.
 */
export interface PinStore {
  /**
   * Pins the key (SHA-256, hex) if none is pinned, and returns the pinned key. Durable when it resolves. Null: the
   * destination was deleted, or its pin was reset or its server changed after its spec had this `generation`. Rejects
   * with StorageUnavailableError if nothing can be stored at the moment.
   */
  pin(
    destinationId: string,
    generation: number,
    sha256: string,
  ): Promise<{ sha256: string; isNew: boolean } | null>
}

/** For a single process: it always owns everything. */
export const ownsEverything: LaneOwnership = {
  owned: () => 1,
  holds: () => true,
  onGained: () => {},
  onLost: () => {},
  onReleased: () => {},
  changed: async () => {},
}

/**
 * The delivery attempts of each lane, for people who look for the cause of a failure. An attempt is written in the
 * transaction that saves its outcome (`lane-store.ts`): a crash leaves both or neither, and a stale owner writes none.
 *
 * The slots of a lane are two rings, one for each outcome. The newest attempt takes the slot of the oldest one of its
 * outcome, so that the table needs no deletions to stay within its bounds, and deliveries displace no failures.
 *
 *   slots 0 …           deliveredAttemptsPerLane of those that delivered
 *   the others          failedAttemptsPerLane of those that failed
 *
 * An attempt, and its number among the attempts of its lane with the same outcome, from 1.
 */
export interface NumberedAttempt {
  numberOfOutcome: number
  attempt: DeliveryAttempt
}

export interface LatencyCounts {
  /** Records, by the time from acceptance to the destination. */
  records: SparseCounts
  /** Attempts by duration. */
  delivered: SparseCounts
  failed: SparseCounts
}

export interface LatencyOfHour {
  /** Start of the UTC hour, ms. */
  hourMs: number
  counts: LatencyCounts
}
