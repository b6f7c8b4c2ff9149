/**
 * The buffer: the durable, ordered log of accepted messages. This page is the contract; `segments/` keeps it in
 * SQLite files, and a cluster can keep it elsewhere (append = publish, `seq` = the stream's sequence).
 *
 *   main ──append──▶ Appender ──frame──▶ writer ──fsync──▶ disk
 *                                          │ committed(pipe, seq)
 *                        delivery ◀────────┘──── reads through BufferReader with a cursor per lane
 *
 * Invariants
 * - `append` resolves only after the message is fsynced. A rejected append left nothing that will be delivered
 *   without having been acknowledged, except when the process died before the answer.
 * - `seq` is a positive safe integer, unique in the buffer, ascending in commit order and never used twice for
 *   acknowledged messages, also across restarts and after retention.
 * - Readers see a message only after it is durable. Within a pipe they see messages in `seq` order without gaps,
 *   other than those retention dropped and those found damaged (both are reported, never silent).
 * - Counts come from running totals: never a scan.
 */

export interface NewMessage {
  pipeId: string
  /** UUID version 7. */
  msgId: string
  /** When the request was accepted, ms since the epoch. */
  receivedMs: number
  recordCount: number
  /** NDJSON: one record's own JSON text a line, `\n` between lines, none at the end. Copied by `append`. */
  body: Uint8Array
  /** At most one message of a pipe is kept for a key within 24 h (contract "Ingest", Idempotency-Key). */
  idempotencyKey?: string
}

/** The answer to an append. For a repeated idempotency key it is the first message's, and nothing was kept anew. */
export interface Appended {
  seq: number
  msgId: string
  recordCount: number
  repeated: boolean
}

export interface StoredMessage {
  seq: number
  pipeId: string
  msgId: string
  receivedMs: number
  recordCount: number
  body: Buffer
}

/** Running totals of one pipe up to and including some message: the difference of two is a count. */
export interface PipeTotals {
  messages: number
  records: number
  bytes: number
}

export interface PipePosition extends PipeTotals {
  /** 0 when the pipe has never had a message. */
  seq: number
}

/** The append could not be made durable (disk full, over the quota, shutting down). Nothing was kept. */
export class BufferUnavailableError extends Error {
  readonly reason: 'over_quota' | 'low_disk_space' | 'write_failed' | 'closing'
  constructor(reason: BufferUnavailableError['reason'], message: string) {
    super(message)
    this.name = 'BufferUnavailableError'
    this.reason = reason
  }
}

/** The writing side, used by the main thread. */
export interface Appender {
  /** Resolves once the message is fsynced. Throws or rejects with BufferUnavailableError. */
  append(message: NewMessage): Promise<Appended>
  /** The newest committed `seq` of the whole buffer; 0 when empty. */
  readonly headSeq: number
  /** Resolves when everything appended so far is answered; later appends are refused (`closing`). */
  drain(): Promise<void>
}

export interface ReadLimits {
  maxRecords: number
  maxBytes: number
  /** Read no message after this one. */
  throughSeq?: number
}

export interface MessageRun {
  /** In `seq` order. At least one message when there is any after the cursor, even if it is over the limits. */
  messages: StoredMessage[]
  /** True when the run ended because of a limit, not because the pipe has no more messages. */
  more: boolean
  /** Messages whose checksum failed: put aside under the data directory, never delivered. */
  damaged: { seq: number; msgId: string; recordCount: number }[]
}

/** The reading side, used by the delivery thread. Cursor-shaped: a cursor is the `seq` of the last message done. */
export interface BufferReader {
  /** The run of a pipe's messages after `afterSeq`, whole messages only. */
  read(pipeId: string, afterSeq: number, limits: ReadLimits): Promise<MessageRun>
  /** The pipe's newest message and its running totals; zeros when it has never had one. */
  head(pipeId: string): Promise<PipePosition>
  /** Running totals at the pipe's newest message with `seq` ≤ the given one (clamped to what is kept). */
  positionAt(pipeId: string, seq: number): Promise<PipePosition>
  /** Position just before the oldest message that is kept: a cursor older than its `seq` has lost messages. */
  floor(pipeId: string): Promise<PipePosition>
  /** The largest cursor such that every message received at or after `timeMs` comes after it. */
  cursorAtTime(pipeId: string, timeMs: number): Promise<number>
  close(): Promise<void>
}

/** How far every lane of a pipe has come; retention keeps what lies after it. */
export interface DeliveredFloor {
  pipeId: string
  /** The smallest saved cursor of the pipe's lanes; 0 for a pipe without lanes (its messages wait for one). */
  seq: number
}

/** What the writer tells delivery, and delivery the writer: one feed between the two threads. */
export interface BufferFeed {
  /** After each commit: the newest `seq` of every pipe that got messages. */
  onCommitted(listener: (pipes: ReadonlyArray<readonly [pipeId: string, seq: number]>) => void): void
  /** After retention dropped something: lanes compare their cursor with `BufferReader.floor`. */
  onDropped(listener: () => void): void
  /**
   * All pipes that exist with their floors, as of `asOfSeq` (the newest seq known when it was made): a pipe that is
   * not in the list and has only messages up to `asOfSeq` was deleted. Nothing is dropped before the first report.
   */
  reportFloors(asOfSeq: number, floors: readonly DeliveredFloor[]): void
}
