/**
 * The contract of the buffer, the durable, ordered log of accepted messages. `segments/` stores it in SQLite files, a
 * cluster in JetStream (append = publish, `seq` = the stream's sequence). Any thread can open it from a serializable
 * spec (`src/stores/open-log.ts`).
 *
 *   main ──append──▶ Appender ──frame──▶ writer ──fsync──▶ disk
 *                                          │ committed(pipe, seq)
 *                        delivery ◀────────┘──── reads through BufferReader with a cursor per lane
 *
 * Invariants
 * - `append` resolves only after the message is fsynced. A message whose append was rejected is never delivered. Only
 *   a crash between commit and response leaves a message that is delivered without a 202.
 * - `seq` is a positive safe integer, unique in the buffer, ascending in commit order and never used twice for
 *   acknowledged messages, also across restarts and after retention.
 * - Readers see a message only after it is durable. Within a pipe they see messages in `seq` order. The only gaps are
 *   messages that retention dropped or that are damaged or missing; every gap is reported.
 * - Counting a backlog never scans messages.
 */
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { HistogramCounts } from '../platform/histogram.ts'
import type { LogErasure } from './erasure.ts'

export interface NewMessage {
  pipeId: string
  /** The workspace whose turn the append uses when appends have to wait. Messages without a workspace share one turn. */
  workspaceId?: string
  /** UUID version 7. */
  msgId: string
  /** When the request was accepted, ms since the epoch. */
  receivedMs: number
  recordCount: number
  /**
   * In the format of `record-text.ts`. It must not change before `append` settles, or before `append` returns when
   * `isBorrowed`.
   */
  body: Uint8Array
  /** The caller reuses the memory of the body after `append` returns. */
  isBorrowed?: boolean
  /** At most one message per pipe is kept for a key within 24 h (docs/dev/contract.md#idempotency). */
  idempotency?: Idempotency
}

export interface Idempotency {
  key: string
  /**
   * Hash of the request's body as it was sent, in ASCII. It distinguishes a repeat from another request with the same
   * key.
   */
  bodyHash: string
}

/** The result of an append. For a repeated idempotency key it describes the first message; nothing new was stored. */
export interface Appended {
  seq: number
  msgId: string
  recordCount: number
  repeated: boolean
}

/**
 * The running totals at a position in a pipe. They let the buffer count from that position even after the messages
 * there were dropped. Only the buffer creates marks; all other code treats them as opaque. JSON text of at most 100
 * characters, stored together with its `seq`.
 */
export type CursorMark = string

/** A position in a pipe, after the message `seq` and before the next one. */
export interface Cursor {
  /** 0 means before the pipe's first message. */
  seq: number
  mark: CursorMark
}

export interface StoredMessage {
  seq: number
  pipeId: string
  msgId: string
  receivedMs: number
  recordCount: number
  body: Buffer
  /** Index, in the whole message, of the body's first record. Greater than 0 only when a part of a message is replayed. */
  firstIndex?: number
  /** The index in the message of each record of the body, if some records were left out (`recordPlace`). */
  places?: readonly number[]
}

/** A message as a reader gets it, with the mark of the cursor just after it. */
export interface MarkedMessage extends StoredMessage {
  mark: CursorMark
}

/** Identifies the data directory or cluster that owns the data, and the restore from a backup that the data started with. */
export interface BufferIdentity {
  dataDirId: string
  /** 1 at first; each restore adds 1. */
  epoch: number
}

/** The facts that metadata stores about the buffer. */
export interface KnownBuffer {
  /** The owner of the buffer. A buffer without one belongs to no data directory. */
  identity?: BufferIdentity
  /** The newest seq known outside the buffer, for example to lanes. The buffer never assigns a seq up to it again. */
  knownSeq?: number
  /** New messages have at least this seq, the first of the epoch. */
  nextSeqAtLeast?: number
}

/** The append could not be made durable (disk full, over the quota, or shutting down). */
export class BufferUnavailableError extends Error {
  /** False: nothing was kept. True: the message was sent to the servers of the buffer, whose answer did not come. */
  readonly mayBeStored: boolean
  /**
   * `pipe_share`: this pipe, or its workspace, holds more than its share of an almost full buffer; others do not.
   * `idempotency_full`: the same for the space of idempotency keys; requests without a key are accepted.
   * `not_replicated`: with `replica.mode = "sync"`, the replica does not answer in time.
   * `not_in_cluster`: the node could not renew its membership, and the other nodes treat it as gone.
   */
  readonly reason:
    | 'over_quota'
    | 'pipe_share'
    | 'idempotency_full'
    | 'low_disk_space'
    | 'write_failed'
    | 'not_replicated'
    | 'not_in_cluster'
    | 'closing'
  constructor(reason: BufferUnavailableError['reason'], message: string, mayBeStored = false) {
    super(message)
    this.name = 'BufferUnavailableError'
    this.mayBeStored = mayBeStored
    this.reason = reason
  }
}

/**
 * The buffer cannot be read for now: its servers do not respond, or a damaged segment waits for disk space to be
 * salvaged. The same read can be repeated.
 */
export class BufferReadUnavailableError extends StorageUnavailableError {
  constructor(message: string, cause?: unknown) {
    super(message, cause)
    this.name = 'BufferReadUnavailableError'
  }
}

/** The idempotency key was used before with another body. Nothing was stored. */
export class IdempotencyKeyReusedError extends Error {
  constructor() {
    super('the idempotency key was used for another request')
    this.name = 'IdempotencyKeyReusedError'
  }
}

/** The writing side; one instance per thread that appends. */
export interface Appender {
  /** Resolves once the message is fsynced. Rejects with BufferUnavailableError, IdempotencyKeyReusedError. */
  append(message: NewMessage): Promise<Appended>
  /**
   * Returns the result that an append with this key would have now: the first message (`repeated`), 'reused' if its
   * body differs, or null if the key is free. It can miss an append that is in progress; `append` decides again.
   */
  findRepeat(pipeId: string, idempotency: Idempotency): Promise<Appended | 'reused' | null>
  /** Resolves when every earlier append is settled. Later appends are rejected (`closing`). */
  drain(): Promise<void>
}

export interface ReadLimits {
  maxRecords: number
  maxBytes: number
  /** The last message to read. */
  throughSeq?: number
  /** The mark of the start cursor. Without it, losses before the first message are not reported, and the run passes them. */
  afterMark?: CursorMark | null
}

/**
 * Missing messages of a pipe, detected by the running totals on both sides of the gap. Messages before `earliest` were
 * dropped by retention; the disk lost the others.
 */
export interface LostMessages {
  /** The first seq of the gap: no message of the pipe from here through `to` is left. */
  firstSeq: number
  /** The cursor just after the last missing message. */
  to: Cursor
  messages: number
}

export interface MessageRun {
  /**
   * In `seq` order. Holds at least one message when there is one after the cursor, even if that message exceeds the
   * limits.
   */
  messages: MarkedMessage[]
  /** True when a limit ended the run; false when the pipe has no more messages. */
  more: boolean
  /** Messages whose checksum failed. They are quarantined in the data directory and never delivered. */
  damaged: { seq: number; msgId: string; recordCount: number; mark: CursorMark }[]
  /** The messages missing after the cursor or after one of the messages, in order. A gap can end a run early. */
  lost: LostMessages[]
}

/** Counts over a range of a pipe's messages. */
export interface Backlog {
  messages: number
  records: number
  bytes: number
}

/** The newest messages: `newestSeq` of the whole buffer, and one seq per pipe that has ever had a message here. */
export interface Heads {
  newestSeq: number
  pipes: ReadonlyMap<string, number>
}

/** The reading side, used by the delivery thread. Every method can reject with BufferReadUnavailableError. */
export interface BufferReader {
  /** Reads the pipe's messages after `afterSeq`. Messages are never split. */
  read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun>
  /** The cursor just after the pipe's newest message; `seq` 0 when the pipe has never had one. */
  head(pipeId: string): Promise<Cursor>
  /**
   * Returns null when no pipe got a message after `afterSeq`. That check costs one lookup; reading all heads costs one
   * per pipe.
   */
  heads(afterSeq: number): Promise<Heads | null>
  /**
   * The cursor just before the oldest message that retention keeps. A cursor with a smaller `seq` has lost messages to
   * retention. Damage does not move it, so that intact messages before the damage can still be read.
   */
  earliest(pipeId: string): Promise<Cursor>
  /** The cursor just after the pipe's newest message with `seq` ≤ the argument, but never before `earliest`. */
  cursorAt(pipeId: string, seq: number): Promise<Cursor>
  /** The largest `seq` such that every message received at or after `timeMs` comes after it. */
  cursorAtTime(pipeId: string, timeMs: number): Promise<number>
  /**
   * Counts the messages after the cursor, up to `throughSeq` or the head. Messages that retention has since dropped are
   * counted too; those up to `earliest` are lost.
   */
  backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog>
  /**
   * Compares a saved cursor with the log. `missing` is the number of messages before the cursor that are lost from the
   * end of the log. The returned mark then matches the log's current totals.
   */
  relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }>
  /** The pipes with messages in the log. Deleted pipes are included while messages of them are kept. */
  pipeIds(): Promise<string[]>
  close(): Promise<void>
}

/** A message without its body. */
export interface ListedMessage extends Omit<StoredMessage, 'pipeId' | 'body'> {
  /** Bytes of the records' text. */
  bytes: number
}

/** With the beginning of its body, at most `listedBytes`. Null: the body is larger than `listedBodyBytes`. */
export interface SummarizedMessage extends ListedMessage {
  beginning: Buffer | null
}

/** A message with its body. Null: it is damaged. */
export interface ReadMessage extends ListedMessage {
  body: Buffer | null
}

/** Selects messages of a pipe between two others, newest first, at most `limit`. */
export interface MessageListing {
  beforeSeq: number
  afterSeq: number
  limit: number
}

/**
 * Looks messages up for users. All lookups can reject with BufferReadUnavailableError. They yield to other work of the
 * thread, but each step blocks it for a while.
 */
export interface MessageLookup {
  /** Null when the message is not kept. */
  find(msgId: string): Promise<StoredMessage | null>
  list(pipeId: string, listing: MessageListing): Promise<SummarizedMessage[]>
  /**
   * The same with bodies, in one step. It ends with the message that brings the bodies to `maxBytes`, so it returns
   * none only if there are none.
   */
  read(pipeId: string, listing: MessageListing & { maxBytes: number }): Promise<ReadMessage[]>
  close(): Promise<void>
}

/** How far every lane of a pipe has delivered. Retention keeps the messages after it. */
export interface LowWatermark {
  pipeId: string
  workspaceId: string
  /**
   * The smallest saved cursor of the pipe's lanes. 0 for a pipe without lanes, whose messages are kept for a future
   * lane.
   */
  seq: number
  /** Messages of the pipe that are older are dropped, delivered or not. Null: the limits of the buffer. */
  retentionHours: number | null
}

/** The messages between the writer and delivery, in both directions. Any thread may open one. */
export interface BufferFeed {
  /** Called after each commit with the newest `seq` of every pipe that got messages. */
  onCommitted(listener: (pipes: ReadonlyArray<readonly [pipeId: string, seq: number]>) => void): void
  /** Called after retention dropped messages. Lanes then compare their cursors with `BufferReader.earliest`. */
  onDropped(listener: () => void): void
  /** Called after records were deleted from messages (`erasure.ts`). What was read before can still have them. */
  onErased(listener: () => void): void
  /**
   * The newest report of each pipe counts. A pipe that is missing from a report keeps its previous value; a pipe that
   * was never reported has nothing delivered. Nothing is dropped before the first report.
   */
  reportLowWatermarks(watermarks: readonly LowWatermark[]): void
  /** Called when the buffer is getting full: free space depends on an immediate report of the lanes' positions. */
  onReportWanted(listener: () => void): void
  /**
   * No one will read this pipe's messages any more. The buffer does not remember this across restarts: see
   * BufferReader.pipeIds.
   */
  pipeDeleted(pipeId: string): void
  close(): void
}

/**
 * How a cluster node reaches the servers of its buffer. The values are ages in whole milliseconds, because the clocks of
 * two nodes are never compared.
 */
export interface BufferContact {
  /** Time since the most recently answered request was sent. */
  readonly answeredAgoMs: number
  /** Time from the first to the last response without a loss of contact in between. */
  readonly answeringForMs: number
  readonly isLost: boolean
}

export interface BufferStatus {
  /** Disk space of the messages and everything stored with them. */
  bytes: number
  /** Disk space of the idempotency keys, which `bytes` does not include. 0 where the keys are part of the log. */
  idempotencyBytes: number
  segments: number
  /** Time at which the oldest kept message was received, ms since the epoch; null when there is none. */
  oldestMs: number | null
  /** Free disk space. */
  freeBytes: number
  /** Why appends are rejected; null while they are accepted. */
  unavailableReason: BufferUnavailableError['reason'] | null
  /** Acknowledged messages of earlier runs that the start did not find. 0 unless the disk lost data. */
  missingAcknowledged: number
  /** Segments that cannot be read and wait to be salvaged. Their messages wait too. */
  damagedSegments: number
  /** Segments found missing since the start, without having been dropped by retention. */
  missingSegments: number
  /** Messages lost in damaged and missing segments, found since the start. */
  lostMessages: number
}

/** Measures every commit since the process began. */
export interface WriterHistograms {
  /** Seconds per COMMIT, which writes and syncs the pages of a frame. */
  syncSeconds: HistogramCounts
  frameBytes: HistogramCounts
  frameMessages: HistogramCounts
}

/** Lets another thread append. The port is transferred to that thread and opened there with `openPortAppender`. */
export type AppenderPort = InstanceType<typeof MessagePort>

/** New messages of one pipe, received within the same hour, that one other thread appended and one commit made durable. */
export interface SharedAppends extends Backlog {
  /** Index of the appender: 0 for the first port that `shareAppender` returned. */
  appender: number
  pipeId: string
  /** Time at which the last of them was received. */
  lastMs: number
}

/** The buffer in the process that writes it. */
export interface OpenBuffer {
  appender: Appender
  /** For one other thread, which must drain its appender before the buffer is closed. */
  shareAppender(): AppenderPort
  /** Called after each commit with what other threads appended, each message once. */
  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void
  /** The newest committed `seq` of the whole buffer, from any appender; 0 when empty. */
  headSeq(): Promise<number>
  /** Time since the writer's last sign of life. */
  silentMs(): number
  /** At most one second old. */
  status(): Promise<BufferStatus>
  histograms(): WriterHistograms
  /** Totals of everything ever appended, per pipe that the buffer remembers. */
  appended(): Promise<Map<string, Backlog>>
  /**
   * Tells it that everything up to `seq` is in the replica, whose newest slot was sent at `provenMs` of the monotonic
   * clock. Null: this kind of buffer has no replica.
   */
  readonly replicated: ((seq: number, provenMs: number) => void) | null
  /** Null: this kind of buffer cannot delete records. */
  readonly erasure: LogErasure | null
  /** Rejects new appends, settles those in progress, then closes. */
  close(): Promise<void>
}
