/**
 * The checksum of a message's row: over every column, with the id of the pipe instead of its number, so that a row that
 * was moved to another file, or a pipe's row that was changed, is found too. It is the CRC-32 of the body, continued over
 * the text of the other columns: the body's own CRC comes with the frame, so the writer does not read the body again.
 */
import { crc32 } from 'node:zlib'

/** Everything in a row but its body. */
export interface RowHeader {
  seq: number
  pipeId: string
  msgId: string
  receivedMs: number
  recordCount: number
  /** Running totals of the pipe. */
  messages: number
  records: number
  bytes: number
  idempotencyKey: string | null
  bodyHash: string | null
}

export function rowChecksum(header: RowHeader, bodyCrc: number): number {
  return crc32(headerText(header), bodyCrc)
}

/** One column a line, the one that can hold anything last: no two headers have the same text. */
function headerText(header: RowHeader): string {
  const { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes } = header
  const { idempotencyKey, bodyHash } = header
  const key = idempotencyKey === null ? '' : `=${idempotencyKey}`
  return `${seq}\n${pipeId}\n${msgId}\n${receivedMs}\n${recordCount}\n${messages}\n${records}\n${bytes}\n${bodyHash ?? ''}\n${key}`
}
