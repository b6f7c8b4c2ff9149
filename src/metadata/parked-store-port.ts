/**
 * The store of the records that a lane parks to continue (docs/dev/contract.md#parked-records): records that its
 * destination permanently rejects, and messages that a user skips. The port; metadata keeps it.
 *
 *   rejected, skipped ─▶ parked ──replay asked for──▶ replaying ──stored──▶ gone
 *                          ▲                              │
 *                          └──────── rejected again ──────┘
 *
 * A parked record is identified by destination, message and position in the message: if it is parked again (a repeat
 * after a crash, a rewind), it is the same row, with more attempts. `recordIndex` null: a message as a whole, or the
 * part of it that is not stored.
 */
import type { ParkedReason } from '../contract/parked.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { LaneOwner } from './lane-ownership.ts'

/** As the destination told it; column and value where it named them. */
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
  /** Place in the message of the first record of `body`. */
  firstIndex: number
  recordCount: number
  /** In the format of `record-text.ts`. */
  body: Buffer
  /** Made since it was parked last. */
  attempts: number
  /** The lane's generation: a record that was parked before a later rewind is delivered once more with its message. */
  generation: number
}

/** The counts of one destination's parked records. A message that is parked as a whole counts once. */
export interface ParkedCounts {
  rows: number
  /** The replay of some of it was asked for. */
  isReplaying: boolean
  /** Records that were removed because of their age, ever since. */
  droppedRecords: number
}

export const nothingParked: ParkedCounts = { rows: 0, isReplaying: false, droppedRecords: 0 }

/** Parked records, without their text. */
export type ParkedPosition = Pick<NewParked, 'seq' | 'recordIndex' | 'recordCount'>

/** Messages that were attempted, and whose end is not saved: those after `afterSeq`, up to `throughSeq`. */
export interface AttemptedRange {
  afterSeq: number
  throughSeq: number
  /** The lane's generation. */
  generation: number
}

/** One parked row on its way to the destination. */
export interface Replay {
  parkedId: string
  /** How often it was replayed, this time included: with `parkedId` the identity of the batch. */
  replays: number
  /** Grows from replay to replay of the destination; null: this one was not begun yet. */
  replayNo: number | null
  firstIndex: number
  message: StoredMessage
}

/** Saved in the transaction that saves the lane's row: neither is ever there without the other. */
export type ParkedChange =
  /** A message is parked as a whole: what else was parked of it is part of this. */
  | { kind: 'message'; parked: NewParked }
  /** Messages after the first seq, up to the last, were delivered: what was parked of them before the rewind is stored now. */
  | { kind: 'delivered_again'; afterSeq: number; throughSeq: number; generation: number }
  /** It is stored. */
  | { kind: 'replayed'; parkedId: string }

/** Every write names the lane's owner, and rejects with LaneOwnershipLostError when there has been a newer one. */
export interface ParkedStore {
  /** An unknown destination has nothing. */
  counts(destinationId: string): Promise<ParkedCounts>
  /** Bytes that everything parked takes: in all, of one workspace, and how many workspaces there are. */
  taken(workspaceId: string): Promise<{ bytes: number; ofWorkspace: number; workspaces: number }>
  /** The records of these messages that were parked in this generation. Bounded by the size of two batches. */
  parkedIn(destinationId: string, range: AttemptedRange): Promise<ParkedPosition[]>
  /** Durable when it resolves. Nothing of a destination that is gone. */
  park(owner: LaneOwner, parked: readonly NewParked[]): Promise<void>
  /**
   * The next to replay, of messages that the lane has passed: one that was begun, else in the order of their messages. Its
   * body is at most as large as a message.
   */
  nextReplay(destinationId: string, throughSeq: number): Promise<Replay | null>
  /** Its number, greater than that of any replay of the destination before; durable when it resolves. */
  beginReplay(owner: LaneOwner, parkedId: string): Promise<number>
  /**
   * It was rejected, or took too long: parked again. The records before `firstIndex`, a position in the message, are stored
   * and no longer part of it. An absolute position: cutting twice removes nothing that was not stored.
   */
  replayFailed(
    owner: LaneOwner,
    parkedId: string,
    cause: Omit<ParkedCause, 'reason'>,
    tried: { attempts: number; firstIndex: number },
  ): Promise<void>
  /** The same, but it will be tried again, from `firstIndex` on. */
  replayHalfStored(owner: LaneOwner, parkedId: string, firstIndex: number): Promise<void>
}

/**
 * The size of one row without its records: keys, indexes, the error and its history. It is counted, or tiny records
 * would be free.
 */
export const parkedRowBytes = 1_024
