/**
 * Reads complete rows of the table `message`, with all columns in the table's order, so that a row can be written to
 * another segment unchanged. For code that reads whole segments; delivery reads by pipe, through segment-connection.ts.
 */
import { crc32 } from 'node:zlib'
import type Database from 'better-sqlite3'

export type MessageRow = [
  ...[seq: number, pipeNo: number, msgId: string, receivedMs: number, recordCount: number, crc: number],
  ...[messages: number, records: number, bytes: number],
  ...[idempotencyKey: string | null, body: Buffer, bodyHash: string | null],
]

export const insertMessage = 'INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'

const columns = `seq, pipe, msg_id, received_ms, record_count, crc, messages, records, bytes, idempotency_key, body, body_hash`

/** `from` is a FROM clause with the columns of the table `message`. */
export function selectMessages(from = 'message'): string {
  return `SELECT ${columns} FROM ${from}`
}

/** `pipeId` is the pipe with the number in the row. */
export function headerOf(row: MessageRow, pipeId: string): RowHeader {
  const [seq, , msgId, receivedMs, recordCount, , messages, records, bytes, idempotencyKey, , bodyHash] = row
  // biome-ignore format: the order of the columns, at a glance.
  return { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes, idempotencyKey, bodyHash }
}

/** A row with its stored checksum and the checksum of its columns. */
export interface CheckedRow extends RowHeader {
  pipeNo: number
  crc: number
  foundCrc: number
  body: Buffer
}

/**
 * Yields rows in order, including those in the WAL. The caller must finish or leave the loop before it makes another
 * call.
 */
export function* checkedRows(db: Database.Database, afterSeq = 0): Generator<CheckedRow> {
  // Reads the table instead of its index, which has the same two columns and can be the damaged part.
  const pipes = db.prepare('SELECT no, pipe_id FROM pipe NOT INDEXED').raw().all() as [number, string][]
  const pipeIds = new Map(pipes)
  const rows = db.prepare(`${selectMessages()} WHERE seq > ? ORDER BY seq`).raw().iterate(afterSeq)
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

/** Everything in a row except its body. */
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

/** One column per line; the only free text is last, so that two different headers never have the same text. */
function headerText(header: RowHeader): string {
  const { seq, pipeId, msgId, receivedMs, recordCount, messages, records, bytes } = header
  const { idempotencyKey, bodyHash } = header
  const key = idempotencyKey === null ? '' : `=${idempotencyKey}`
  return `${seq}\n${pipeId}\n${msgId}\n${receivedMs}\n${recordCount}\n${messages}\n${records}\n${bytes}\n${bodyHash ?? ''}\n${key}`
}
