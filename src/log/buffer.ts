/**
 * The buffer: the durable, ordered log of accepted messages. This page is the contract; `segments/` keeps it in
 * SQLite files, and a cluster can keep it elsewhere (append = publish, `seq` = the stream's sequence). `open.ts` opens
 * it from a serialisable spec, in any thread.
 *
 *   main ──append──▶ Appender ──frame──▶ writer ──fsync──▶ disk
 *                                          │ committed(pipe, seq)
 *                        delivery ◀────────┘──── reads through BufferReader with a cursor per lane
 *
 * Invariants
 * - `append` resolves only after the message is fsynced. A rejected append left nothing that will be delivered
 *   without having been acknowledged, except when the process died before the response.
 * - `seq` is a positive safe integer, unique in the buffer, ascending in commit order and never used twice for
 *   acknowledged messages, also across restarts and after retention.
 * - Readers see a message only after it is durable. Within a pipe they see messages in `seq` order without gaps,
 *   other than those retention dropped and those found damaged or missing (all are reported, never silent).
 * - Counting a backlog never scans messages.
 */
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { HistogramCounts } from '../platform/histogram.ts'

export interface NewMessage {
  pipeId: string
  /** The workspace whose turn the append takes if appends have to wait. Messages without one share a turn. */
  workspaceId?: string
  /** UUID version 7. */
  msgId: string
  /** When the request was accepted, ms since the epoch. */
  receivedMs: number
  recordCount: number
  /** In the format of `record-text.ts`. It must not change before `append` is settled, or has returned when it is lent. */
  body: Uint8Array
  /** Another body will be where this one is. */
  isLent?: boolean
  /** At most one message per pipe is kept for a key within 24 h (docs/dev/contract.md#idempotency). */
  idempotency?: Idempotency
}

export interface Idempotency {
  key: string
  /** The hash of the request's body as it was sent, ASCII: tells a repeat from another request with the same key. */
  bodyHash: string
}

/** The result of an append. For a repeated idempotency key it is the first message's, and nothing new was kept. */
export interface Appended {
  seq: number
  msgId: string
  recordCount: number
  repeated: boolean
}

/**
 * The state with which the buffer can count, later, from a position in a pipe, even after the messages there were
 * dropped. Only the buffer creates it; it is opaque to all other code: JSON text of at most 100 characters. It is
 * stored together with the `seq` it was given for.
 */
export type CursorMark = string

/** A place in a pipe: everything up to and including `seq` lies before it. */
export interface Cursor {
  /** 0: before the pipe's first message. */
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
  /** Place in the message of the body's first record: more than 0 where only a part of a message is replayed. */
  firstIndex?: number
  /** The position in the message of each record in the body, if some were left out (`recordPlace`). */
  places?: readonly number[]
}

/** As a reader gets it, with the mark of the cursor just after it. */
export interface MarkedMessage extends StoredMessage {
  mark: CursorMark
}

/** Identifies the data's owner, and the restore from a backup that it began with. */
export interface BufferIdentity {
  dataDirId: string
  /** 1, and one more with each restore. */
  epoch: number
}

/** The facts that metadata stores about the buffer. */
export interface KnownBuffer {
  /** The owner of the buffer. Without one it belongs to no data directory. */
  identity?: BufferIdentity
  /** The newest seq that anyone else has seen, lanes for example: no seq up to it is given out again. */
  knownSeq?: number
  /** New messages have at least this seq: the first of the epoch. */
  nextSeqAtLeast?: number
}

/** The append could not be made durable (disk full, over the quota, shutting down). */
export class BufferUnavailableError extends Error {
  /** False: nothing was kept. True: the message was sent to the servers of the buffer, whose answer did not come. */
  readonly mayBeStored: boolean
  /**
   * `pipe_share`: this pipe, or its workspace, holds more than its share of an almost full buffer; others do not.
   * `idempotency_full`: the same of the space for idempotency keys; requests without a key are accepted.
   * `not_in_cluster`: the node could not renew its place in the cluster, and the others count it out.
   */
  readonly reason:
    | 'over_quota'
    | 'pipe_share'
    | 'idempotency_full'
    | 'low_disk_space'
    | 'write_failed'
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
 * The buffer cannot be read for now (it is elsewhere, and does not answer; or a damaged segment waits for space to be salvaged):
 * nothing is wrong with what was asked, which may be asked again.
 */
export class BufferReadUnavailableError extends StorageUnavailableError {
  constructor(message: string, cause?: unknown) {
    super(message, cause)
    this.name = 'BufferReadUnavailableError'
  }
}

/** The idempotency key was used for another body. Nothing was kept. */
export class IdempotencyKeyReusedError extends Error {
  constructor() {
    super('the idempotency key was used for another request')
    this.name = 'IdempotencyKeyReusedError'
  }
}

/** The writing side, one for each thread that appends. */
export interface Appender {
  /** Resolves once the message is fsynced. Rejects with BufferUnavailableError, IdempotencyKeyReusedError. */
  append(message: NewMessage): Promise<Appended>
  /**
   * The result that an append with this key would have now: the first message (`repeated`), 'reused' when it had
   * another body, null when the key is free. An append that is under way may not be seen; `append` decides again.
   */
  findRepeat(pipeId: string, idempotency: Idempotency): Promise<Appended | 'reused' | null>
  /** Resolves when everything appended so far is settled; later appends are rejected (`closing`). */
  drain(): Promise<void>
}

export interface ReadLimits {
  maxRecords: number
  maxBytes: number
  /** Read no message after this one. */
  throughSeq?: number
  /** The mark of the cursor to read from: without it, what was lost just after the cursor is not noticed. */
  afterMark?: CursorMark | null
}

/**
 * Messages of a pipe that should be there and are not: the running totals on both sides of them tell. Retention dropped
 * them if they lie before `earliest`; else the disk lost them.
 */
export interface LostMessages {
  /** No message of the pipe from here up to `to` is left. */
  firstSeq: number
  /** Just after the last of them. */
  to: Cursor
  messages: number
}

export interface MessageRun {
  /** In `seq` order. At least one message when there is any after the cursor, even if it is over the limits. */
  messages: MarkedMessage[]
  /** True when the run ended because of a limit, not because the pipe has no more messages. */
  more: boolean
  /** Messages whose checksum failed: put aside under the data directory, never delivered. */
  damaged: { seq: number; msgId: string; recordCount: number; mark: CursorMark }[]
  /**
   * The messages that are missing after the cursor or after one of the messages, in order. A run may end early
   * because of it.
   */
  lost: LostMessages[]
}

/** Counts of some run of a pipe's messages. */
export interface Backlog {
  messages: number
  records: number
  bytes: number
}

/** The newest messages: `newestSeq` of the whole buffer, and of every pipe that has ever had one here. */
export interface Heads {
  newestSeq: number
  pipes: ReadonlyMap<string, number>
}

/** The reading side, used by the delivery thread. Every method may reject with BufferReadUnavailableError. */
export interface BufferReader {
  /** The run of a pipe's messages after `afterSeq`, whole messages only. */
  read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun>
  /** Just after the pipe's newest message; `seq` 0 when it has never had one. */
  head(pipeId: string): Promise<Cursor>
  /** Null when nothing was appended after `afterSeq`, to any pipe. That costs one look-up, all heads one for each pipe. */
  heads(afterSeq: number): Promise<Heads | null>
  /**
   * Just before the oldest message that retention keeps: a cursor with a smaller `seq` has lost messages to it. What was
   * damaged does not move it: intact messages before the damage stay within reach.
   */
  earliest(pipeId: string): Promise<Cursor>
  /** Just after the pipe's newest message with `seq` ≤ the given one, but never before `earliest`. */
  cursorAt(pipeId: string, seq: number): Promise<Cursor>
  /** The largest `seq` such that every message received at or after `timeMs` comes after it. */
  cursorAtTime(pipeId: string, timeMs: number): Promise<number>
  /**
   * Counts the messages after the cursor, up to `throughSeq` or the head. Messages that retention has dropped since
   * the cursor was there are counted too: those up to `earliest` are the lost ones.
   */
  backlog(pipeId: string, after: Cursor, throughSeq?: number): Promise<Backlog>
  /**
   * A cursor of an earlier run, compared with what is here. `missing`: how many of the messages before it the end of the
   * log has lost; its mark is then as the log counts now.
   */
  relocate(pipeId: string, cursor: Cursor): Promise<{ cursor: Cursor; missing: number }>
  /** The pipes that have messages here, deleted ones too as long as messages of them are kept. */
  pipeIds(): Promise<string[]>
  close(): Promise<void>
}

/** A message without its body. */
export interface ListedMessage extends Omit<StoredMessage, 'pipeId' | 'body'> {
  /** The bytes of its records' text. */
  bytes: number
}

/** Messages between two others of a pipe, newest first; at most `limit`. */
export interface MessageListing {
  beforeSeq: number
  afterSeq: number
  limit: number
}

/** For whoever looks messages up. Both may reject with BufferReadUnavailableError. It takes turns with other work of the thread, but each turn takes its time. */
export interface MessageLookup {
  /** Null: it is not kept. */
  find(msgId: string): Promise<StoredMessage | null>
  list(pipeId: string, listing: MessageListing): Promise<ListedMessage[]>
  close(): Promise<void>
}

/** How far every lane of a pipe has come; retention keeps what lies after it. */
export interface LowWatermark {
  pipeId: string
  workspaceId: string
  /** The smallest saved cursor of the pipe's lanes; 0 for a pipe without lanes (its messages wait for one). */
  seq: number
}

/** The messages between the writer and delivery, in both directions. Any thread may open one. */
export interface BufferFeed {
  /** After each commit: the newest `seq` of every pipe that got messages. */
  onCommitted(listener: (pipes: ReadonlyArray<readonly [pipeId: string, seq: number]>) => void): void
  /** After retention dropped something: lanes compare their cursor with `BufferReader.earliest`. */
  onDropped(listener: () => void): void
  /**
   * For each of these pipes the newest report counts. A pipe that is not in it keeps what was reported before; of a
   * pipe that was never reported nothing counts as delivered. Nothing at all is dropped before the first report.
   */
  reportLowWatermarks(watermarks: readonly LowWatermark[]): void
  /** The buffer is getting full: report how far the lanes are at once, space may depend on it. */
  onReportWanted(listener: () => void): void
  /** Nobody will read this pipe's messages any more. Not remembered over a restart: see BufferReader.pipeIds. */
  pipeDeleted(pipeId: string): void
  close(): void
}

/** How a node of a cluster reaches the servers of its buffer. As ages, because the clocks of two nodes are never compared. Whole milliseconds. */
export interface BufferContact {
  /** Since the question was sent that was answered last. */
  readonly answeredAgoMs: number
  /** From the first answer to the last one, without a loss between them. */
  readonly answeringForMs: number
  readonly isLost: boolean
}

export interface BufferStatus {
  /** Messages on disk, with everything that belongs to them. */
  bytes: number
  /** Bytes of idempotency keys on disk, which `bytes` does not contain; 0 where they are a part of the log. */
  idempotencyBytes: number
  segments: number
  /** When the oldest message that is kept was received, ms since the epoch; null when there is none. */
  oldestMs: number | null
  /** Free disk space. */
  freeBytes: number
  /** Why appends are rejected; null while they are accepted. */
  unavailableReason: BufferUnavailableError['reason'] | null
  /** Acknowledged messages of earlier runs that were not found at the start; 0 unless the disk lost something. */
  missingAcknowledged: number
  /** Parts of the log that could not be read and wait until what can be is saved; their messages wait meanwhile. */
  damagedSegments: number
  /** Parts of the log that are gone without having been dropped, found since the start. */
  missingSegments: number
  /** In damaged and missing parts, found since the start. */
  lostMessages: number
}

/** Measures every commit since the process began. */
export interface WriterHistograms {
  /** COMMIT, which writes a frame's pages and syncs them, in seconds. */
  syncSeconds: HistogramCounts
  frameBytes: HistogramCounts
  frameMessages: HistogramCounts
}

/** Another thread's way to append: transferred to it, and opened there with `openPortAppender`. */
export type AppenderPort = InstanceType<typeof MessagePort>

/** New messages of one pipe, received within one hour, that one other thread appended and one commit made durable. */
export interface SharedAppends extends Backlog {
  /** The index of the appender: 0 for the first port that `shareAppender` gave out. */
  appender: number
  pipeId: string
  /** When the last of them was received. */
  lastMs: number
}

/** The buffer as the process that writes it holds it. */
export interface OpenBuffer {
  appender: Appender
  /** For one other thread; it drains it before the buffer is closed. */
  shareAppender(): AppenderPort
  /** Called after each commit with what other threads appended, each message once. */
  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void
  /** The newest committed `seq` of the whole buffer, whoever appended it; 0 when empty. */
  headSeq(): Promise<number>
  /** How long the writer has given no sign of life. */
  silentMs(): number
  /** As of at most a second ago. */
  status(): Promise<BufferStatus>
  histograms(): WriterHistograms
  /** Per pipe: everything that was ever appended to it, as far as the buffer remembers the pipe. */
  appended(): Promise<Map<string, Backlog>>
  /** Rejects appends, settles those under way, then closes. */
  close(): Promise<void>
}
