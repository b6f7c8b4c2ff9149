/**
 * A position in a pipe with the pipe's totals there. The difference of two positions is a count. Outside this folder it
 * is a Cursor.
 */
import type { Backlog, Cursor, CursorMark } from '../../log/buffer.ts'

export interface PipePosition extends Backlog {
  /** The sequence of the frame that contains the position or precedes it. */
  streamSeq: number
  /** 0 means before the pipe's first message. */
  seq: number
}

export const zeroPosition: PipePosition = { streamSeq: 0, seq: 0, messages: 0, records: 0, bytes: 0 }
export const zeroCounts: Backlog = { messages: 0, records: 0, bytes: 0 }

export function cursorOf(position: PipePosition): Cursor {
  return { seq: position.seq, mark: markOf(position) }
}

export function markOf({ messages, records, bytes }: Backlog): CursorMark {
  return `[${messages},${records},${bytes}]`
}

/** Null when this buffer did not create the mark. */
export function countsOf(mark: CursorMark): Backlog | null {
  const counts: unknown = JSON.parse(mark)
  if (!Array.isArray(counts)) return null
  const [messages, records, bytes] = counts.map(Number)
  return messages === undefined || records === undefined || bytes === undefined
    ? null
    : { messages, records, bytes }
}

export function plus(counts: Backlog, more: Backlog): Backlog {
  return {
    messages: counts.messages + more.messages,
    records: counts.records + more.records,
    bytes: counts.bytes + more.bytes,
  }
}

export function minus(counts: Backlog, less: Backlog): Backlog {
  return {
    messages: counts.messages - less.messages,
    records: counts.records - less.records,
    bytes: counts.bytes - less.bytes,
  }
}

/** Never negative. */
export function difference(to: Backlog, from: Backlog): Backlog {
  const { messages, records, bytes } = minus(to, from)
  return { messages: Math.max(0, messages), records: Math.max(0, records), bytes: Math.max(0, bytes) }
}
