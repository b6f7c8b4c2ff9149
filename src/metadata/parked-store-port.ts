/**
 * The port for records that a lane parks so that it can continue (docs/dev/contract.md#parked-records): records that
 * the destination permanently rejects, and messages that a user skips. Implemented by metadata.
 *
 *   rejected, skipped ─▶ parked ──replay requested──▶ replaying ──stored──▶ removed
 *                          ▲                              │
 *                          └──────── rejected again ──────┘
 *
 * A parked record is identified by destination, message and position in the message. A record that is parked again (a
 * repeat after a crash, a rewind) keeps its row, which counts more attempts. `recordIndex` null: the message as a
 * whole, or the part of it that is not stored.
 */
import type { ParkedReason } from '../contract/parked.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { LaneOwner } from './lane-ownership.ts'

/** The error as the destination reported it, with column and value if it named them. */
export interface ParkedCause {
  reason: ParkedReason
  code: string
  message: string
  column: string | null
  value: string | null
}

export interface NewParked extends ParkedCause {
  msgId: string
  seq: number
  receivedMs: number
  recordIndex: number | null
  /** The position in the message of the first record of `body`. */
  firstIndex: number
  recordCount: number
  /** In the format of `record-text.ts`. */
  body: Buffer
  /** Attempts since it was last parked. */
  attempts: number
  /** The lane's generation. A record that was parked before a later rewind is delivered again with its message. */
  generation: number
}

/** The counts of one destination's parked records. A message that is parked as a whole counts once. */
export interface ParkedCounts {
  rows: number
  /** A replay of some of them was requested. */
  isReplaying: boolean
  /** Records that were ever removed because of their age. */
  droppedRecords: number
  /** A replay of a range of messages (`RangeStore`) waits or runs. */
  hasRanges: boolean
}

export const nothingParked: ParkedCounts = {
  rows: 0,
  isReplaying: false,
  droppedRecords: 0,
  hasRanges: false,
}

/** Parked records, without their text. */
export type ParkedPosition = Pick<NewParked, 'seq' | 'recordIndex' | 'recordCount'>

/** Messages that were attempted and whose outcome is not saved: those after `afterSeq`, up to `throughSeq`. */
export interface AttemptedRange {
  afterSeq: number
  throughSeq: number
  /** The lane's generation. */
  generation: number
}

/** One parked row that is to be delivered again. */
export interface Replay {
  parkedId: string
  /** The number of replays, including this one. Together with `parkedId` it identifies the batch. */
  replays: number
  /** Grows with every replay of the destination; null: this replay has not begun. */
  replayNo: number | null
  firstIndex: number
  message: StoredMessage
}

/** A change of parked records, stored in the transaction that saves the lane's row. */
export type ParkedChange =
  /** A message is parked as a whole. This includes its records that were parked before. */
  | { kind: 'message'; parked: NewParked }
  /**
   * Messages after `afterSeq`, up to `throughSeq`, were delivered. This includes their records that were parked before
   * the rewind.
   */
  | { kind: 'delivered_again'; afterSeq: number; throughSeq: number; generation: number }
  /** The replay has stored the record. */
  | { kind: 'replayed'; parkedId: string }

/**
 * Stores parked records. Every write names the lane's owner, and rejects with LaneOwnershipLostError if there has been
 * a newer one.
 */
export interface ParkedStore {
  /** Returns zeros for an unknown destination. */
  counts(destinationId: string): Promise<ParkedCounts>
  /**
   * Returns the bytes of all parked records, including those parked at pipes, those of one workspace, and the number of workspaces with parked records.
   */
  taken(workspaceId: string): Promise<{ bytes: number; ofWorkspace: number; workspaces: number }>
  /**
   * Returns the records of these messages that were parked in this generation. The caller limits the range to the size
   * of two batches.
   */
  parkedIn(destinationId: string, range: AttemptedRange): Promise<ParkedPosition[]>
  /** Parks records. Durable when it resolves. Ignored for a deleted destination. */
  park(owner: LaneOwner, parked: readonly NewParked[]): Promise<void>
  /**
   * Returns the next row to replay, of messages that the lane has passed. A replay that has begun comes first, then the
   * order of the messages. Its body is at most as large as a message.
   */
  nextReplay(destinationId: string, throughSeq: number): Promise<Replay | null>
  /**
   * Returns the number of the replay, greater than that of every earlier replay of the destination. Durable when it
   * resolves.
   */
  beginReplay(owner: LaneOwner, parkedId: string): Promise<number>
  /**
   * The replay was rejected or took too long, and the row is parked again. The records before `firstIndex`, a position
   * in the message, are stored and removed from the row. The position is absolute, so that a repeated call removes no
   * further records.
   */
  replayFailed(
    owner: LaneOwner,
    parkedId: string,
    cause: Omit<ParkedCause, 'reason'>,
    tried: { attempts: number; firstIndex: number },
  ): Promise<void>
  /** As `replayFailed`, but the replay will be tried again from `firstIndex` on. */
  replayHalfStored(owner: LaneOwner, parkedId: string, firstIndex: number): Promise<void>
}

/**
 * The size of one row without its records: keys, indexes, the error and its history. Without it, tiny records would
 * hardly count towards the limit.
 */
export const parkedRowBytes = 1_024
