/**
 * The rows of the table `message` as they are stored: all columns, in the table's order, so that what is read from one
 * segment is written to another as it is. For what looks at whole segments; delivery reads by pipe, through
 * segment-connection.ts.
 */
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'

export type MessageRow = [
  ...[seq: number, pipeNo: number, msgId: string, receivedMs: number, recordCount: number, crc: number],
  ...[messages: number, records: number, bytes: number],
  ...[idempotencyKey: string | null, body: Buffer, bodyHash: string | null],
]

export const insertMessage = 'INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'

export const selectMessages = `
  SELECT seq, pipe, msg_id, received_ms, record_count, crc, messages, records, bytes, idempotency_key, body, body_hash
  FROM message`

/** `pipeId`: of the pipe whose number is in the row. */
export function headerOf(row: MessageRow, pipeId: string): RowHeader {
  const [seq, , msgId, receivedMs, recordCount, , messages, records, bytes, idempotencyKey, , bodyHash] = row
  // biome-ignore format: the order of the columns, at a glance.
  return { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes, idempotencyKey, bodyHash }
}

/** A row with the checksum that is stored in it and the one that its columns have. */
export interface CheckedRow extends RowHeader {
  pipeNo: number
  crc: number
  foundCrc: number
  body: Buffer
}

/** In order, with what is in the WAL. The caller must finish or leave the loop before it calls anything else. */
export function* checkedRows(db: Database.Database, afterSeq = 0): Generator<CheckedRow> {
  // By the table: its index has the same two columns, and may be what is damaged.
  const pipes = db.prepare('SELECT no, pipe_id FROM pipe NOT INDEXED').raw().all() as [number, string][]
  const pipeIds = new Map(pipes)
  const rows = db.prepare(`${selectMessages} WHERE seq > ? ORDER BY seq`).raw().iterate(afterSeq)
  for (const row of rows as IterableIterator<MessageRow>) {
    const [, pipeNo, , , , crc] = row
    const body = bodyOf(row)
    const header = headerOf(row, pipeIds.get(pipeNo) ?? '')
    const foundCrc = rowChecksum(header, crc32(body))
    yield { ...header, pipeNo, crc, foundCrc, body }
  }
}

export function bodyOf(row: MessageRow): Buffer {
  return row[10]
}

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
