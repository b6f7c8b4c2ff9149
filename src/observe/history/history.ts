/**
 * Shows the buffer's messages to people: one message, a page of them, the newest as they arrive. The port that
 * management and the tail use; `history-proxy.ts` keeps its work off the main thread by calls to a thread of its own,
 * so that neither requests nor delivery wait for it.
 */
import type { Cursor, ListedMessage, MessageListing } from '../../log/buffer.ts'

export interface FoundMessage extends ListedMessage {
  pipeId: string
  /** The first records, each one's own JSON text. */
  recordTexts: string[]
  /** It has more records than those. */
  isTruncated: boolean
}

/** Where a tail is in a pipe: just after a message. */
export interface TailPlace {
  cursor: Cursor
  /** The first records of that message were shown already. */
  given?: { seq: number; records: number }
}

export interface TailedRecord {
  msgId: string
  seq: number
  /** Its place in the message, from 0. */
  index: number
  receivedMs: number
  /** Its own JSON text. */
  text: string
}

export interface TailedRun {
  records: TailedRecord[]
  /** Where the next run begins. */
  place: TailPlace
  /** Records up to there that are not among them. */
  leftOut: number
}

export interface MessageQuery extends MessageListing {
  /** Received at or after it; null: from the first. */
  sinceMs: number | null
  /** Received before it; null: to the last. */
  untilMs: number | null
}

export interface MessagePage {
  messages: ListedMessage[]
  /** `beforeSeq` of the next page; null: this is the last one. */
  next: number | null
}

export interface History {
  find(msgId: string): Promise<FoundMessage | null>
  /** Newest first. */
  list(pipeId: string, query: MessageQuery): Promise<MessagePage>
  /** Just after the newest message; with `afterSeq` just after that one, as far as it is kept. */
  placeAt(pipeId: string, afterSeq: number | null): Promise<TailPlace>
  /** Waits up to `waitMs` for a record after that place. At most `most` of them: what else there is by then is left out. */
  follow(pipeId: string, from: TailPlace, most: number, waitMs: number): Promise<TailedRun>
}
