/**
 * Reads messages from the buffer for users: one message, a page of messages, or the newest as they arrive. Management
 * and tails use this port. `history-proxy.ts` runs the work in a separate thread, so that neither requests nor
 * delivery wait for it.
 */
import type { RecordCondition } from '../../contract/record-condition.ts'
import type { RecordSchema } from '../../contract/record-schema.ts'
import type { InferenceOptions, JsonSchema } from '../../contract/schema-inference/infer-schema.ts'
import type { CountedError, RecordError } from '../../contract/schema-mismatches.ts'
import type { Cursor, ListedMessage } from '../../log/buffer.ts'
import type { SeqRange } from '../../metadata/lane-state.ts'

export interface FoundMessage extends ListedMessage {
  pipeId: string
  /** The first records, each as its original JSON text. */
  recordTexts: string[]
  /** True if the message has more records than those. */
  isTruncated: boolean
}

/** The position of a tail in a pipe: just after a message. */
export interface TailPosition {
  cursor: Cursor
  /** The first `records` records of that message were already shown. */
  shown?: { seq: number; records: number }
}

export interface TailedRecord {
  msgId: string
  seq: number
  /** Its index in the message, from 0. */
  index: number
  receivedMs: number
  /** Its original JSON text. */
  text: string
}

export interface TailedRun {
  records: TailedRecord[]
  /** The start of the next run. */
  position: TailPosition
  /** Records up to `position` that are not included. */
  omitted: number
}

export interface MessageQuery {
  /** Only messages before this one. */
  beforeSeq: number
  limit: number
  /** Messages received at or after this time. Null: from the first. */
  sinceMs: number | null
  /** Messages received before this time. Null: to the last. */
  untilMs: number | null
  /** Only messages in these ranges, which do not overlap, newest first. Null: all. */
  ranges: readonly SeqRange[] | null
  /** Only messages with a record that meets the condition. Null: all. */
  where: RecordCondition | null
}

export interface MessageExcerpt extends ListedMessage {
  excerpt: RecordExcerpt | null
}

/** The beginning of a message's first record, or of the first that meets the condition. */
export interface RecordExcerpt {
  /** The index of the record in the message, from 0. */
  index: number
  text: string
  isCut: boolean
}

export interface MessagePage {
  messages: MessageExcerpt[]
  /** `beforeSeq` of the next page. Null: this is the last page. */
  next: number | null
  searched: Searched
  /** All messages up to this one were received before `sinceMs`. 0 without it. */
  afterSeq: number
  /** True if the page ended because the request had looked at as much as one request can. */
  isBounded: boolean
}

/** The extent of a search. */
export interface Searched {
  messages: number
  /** Bytes of records that were compared with the condition. */
  bytes: number
  /** When the last of the messages, which is the oldest, was received. Null: there were none. */
  lastMs: number | null
}

/** A bound of a range of messages: a point between two messages of the pipe. */
export type RangeBound =
  | { at: 'start' }
  | { at: 'end' }
  /** Just before this message. */
  | { at: 'seq'; seq: number }
  /** Just before the first message that was received at or after this time. */
  | { at: 'time'; timeMs: number }

export interface RangeQuery {
  from: RangeBound
  to: RangeBound
  /** Messages after this one are counted separately. */
  throughSeq: number
}

export interface MessageRange {
  /** The position just before the first message. */
  after: Cursor
  /** The last message, or `after` for an empty range. */
  throughSeq: number
  messages: number
  records: number
  bytes: number
  first: Pick<ListedMessage, 'seq' | 'receivedMs'> | null
  last: Pick<ListedMessage, 'seq' | 'receivedMs'> | null
  /** False: messages before `after` are no longer kept, and some of them may belong to the range. */
  isComplete: boolean
  /** The messages of the range after the `throughSeq` of the query. */
  laterMessages: number
}

/** The newest records of a pipe, or a sample of records, one per line. */
export interface RecordsToRead {
  pipeId: string
  sample: string | null
  maxRecords: number
}

export interface RecordsRead {
  records: number
  /** Null: there were none, or they are of a sample. */
  oldestMs: number | null
  /** The limit that ended the reading. Null: there were no more records. */
  endedBy: 'records' | 'bytes' | 'time' | null
}

export interface SchemaInferenceQuery extends RecordsToRead {
  /** Top-level keys that the pipe adds to records. */
  ignoredKeys: readonly string[]
  options: InferenceOptions
}

export interface SchemaCheckQuery extends RecordsToRead {
  /** Verified. */
  schema: RecordSchema
  ignoredKeys: readonly string[]
}

export interface RecordsChecked extends RecordsRead {
  mismatching: number
  errors: CountedError[]
  /** The first ones. */
  mismatches: {
    msgId: string | null
    receivedMs: number | null
    index: number
    errors: readonly RecordError[]
  }[]
}

export interface History {
  /** Counts the kept messages of a range, without a scan. */
  range(pipeId: string, query: RangeQuery): Promise<MessageRange>
  find(msgId: string): Promise<FoundMessage | null>
  /**
   * Newest first. A request reads a limited number of bytes for a limited time (`resource-limits.ts`), and reports how
   * far it came. So a page can have fewer messages than `limit`, even none, although there is a next page.
   */
  list(pipeId: string, query: MessageQuery): Promise<MessagePage>
  /** Proposes a schema that accepts the records. */
  inferSchema(query: SchemaInferenceQuery): Promise<RecordsRead & { schema: JsonSchema; notes: string[] }>
  /** Compares the records with a schema. */
  checkSchema(query: SchemaCheckQuery): Promise<RecordsChecked>
  /**
   * The position after the newest message. With `afterSeq`, the position after that message, as far as messages are
   * kept.
   */
  positionAt(pipeId: string, afterSeq: number | null): Promise<TailPosition>
  /**
   * Waits up to `waitMs` for a record after that position. Returns at most `maxRecords` records and skips the others that
   * exist by then.
   */
  follow(pipeId: string, from: TailPosition, maxRecords: number, waitMs: number): Promise<TailedRun>
}
