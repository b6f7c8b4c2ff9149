/**
 * The encoding of rows of the log that leave this machine: the rows of several pipes in the order of their seqs, and the
 * heads of the segments that they come from. A reader writes a batch (replicated-rows.ts), a copy of the log applies it
 * (log-copy.ts). Little-endian, no padding:
 *
 *   batch     0  "plgr"   4 u8 version   5 3 zeros   8 u32 bytes of the items   12 u32 CRC-32 of the rest of the batch
 *             16 f64 seq after which it was read   24 f64 the buffer's clock, ms   32 f64 oldest kept seq   40 items
 *   item      u8 kind, then:
 *   1 pipe    text pipe id. Rows name it by its index: 0 for the first one in the batch
 *   2 row     0 u32 body length   4 u32 CRC-32 of the row   8 f64 seq   16 f64 received, ms   24 f64 messages
 *             32 f64 records   40 f64 bytes   48 u32 record count   52 u32 pipe   56 u16 key length, 0: no key
 *             58 u16 length of the body hash, 0: none   60 msg id, 36 ASCII characters
 *             96 key, UTF-8; body hash, ASCII; body
 *   3 head    f64 first seq, text segment id, text id of the previous segment ('' for none), f64 epoch,
 *             f64 clock when the segment was begun, f64 end of the segment before it, u8 1: it was salvaged,
 *             list of holes (f64 first seq, f64 last seq),
 *             list of pipes (text pipe id, f64 seq, f64 messages, f64 records, f64 bytes)
 *   text      u16 length, UTF-8          list   u32 length, entries
 *
 * A row is encoded as it is stored, with its own checksum, so that the writer of a copy can verify what it is about to
 * commit. Decoding is bounded by the length of the batch: no length in it allocates more than the batch has bytes, and
 * bodies are views into it.
 */
import { crc32 } from 'node:zlib'
import { bodyOf, type MessageRow, type RowHeader } from './layout.ts'
import type { PipePosition } from './position.ts'
import type { SeqRange } from './segment-file.ts'

const magic = Buffer.from('plgr')
const version = 1
const batchHeadBytes = 40
const crcAt = 12
const checkedFrom = 16
const kinds = { pipe: 1, row: 2, head: 3 }
const rowHeadBytes = 96
const idCharacters = 36
const maxText = 0xffff
const maxU32 = 0xffffffff

/** The batch was changed since it was encoded, or is in a format that this version does not know. */
export class RowBatchError extends Error {}

/** The beginning of a segment, as the reader found it. */
export interface SegmentHead {
  firstSeq: number
  segmentId: string
  previousSegmentId: string | null
  epoch: number
  begunClockMs: number
  /** The last seq of the segment before it, if the batch has its end; otherwise 0. Compaction can remove that message. */
  previousLastSeq: number
  /** See `markSalvaged`. */
  isSalvaged: boolean
  /** The ranges before this segment of which nothing is kept, because of retention and compaction. */
  holes: SeqRange[]
  /**
   * Each pipe's position before its first message here. If an earlier batch had rows of this segment: only the pipes
   * from which compaction has removed messages since.
   */
  bases: { pipeId: string; position: PipePosition }[]
}

export interface EncodedRow extends RowHeader {
  crc: number
  body: Buffer
}

export interface RowBatch {
  /** The batch has every row after this seq that was kept, up to its last one. */
  afterSeq: number
  clockMs: number
  oldestKeptSeq: number
  items(): Generator<{ kind: 'row'; row: EncodedRow } | { kind: 'head'; head: SegmentHead }>
}

/** Collects rows. */
export class RowBatchWriter {
  #buffer: Buffer
  #length = batchHeadBytes
  readonly #pipes = new Map<string, number>()

  readonly #fullBytes: number

  /**
   * A batch that outgrows `smallBytes` is expected to become a full one: its content is moved once. `memory`: that of an earlier
   * batch, which is overwritten.
   */
  constructor(smallBytes: number, fullBytes: number, memory: Buffer | null = null) {
    this.#buffer = memory ?? Buffer.allocUnsafe(batchHeadBytes + smallBytes)
    this.#fullBytes = batchHeadBytes + fullBytes
  }

  get memory(): Buffer {
    return this.#buffer
  }

  /** Without the head of the batch. */
  get bytes(): number {
    return this.#length - batchHeadBytes
  }

  /** `row` must be sound: its columns have the types and ranges of a written row. */
  row(row: MessageRow, pipeId: string): void {
    const [seq, , msgId, receivedMs, recordCount, crc, messages, records, bytes, key, , bodyHash] = row
    const body = bodyOf(row)
    const pipe = this.#pipes.get(pipeId) ?? this.#addPipe(pipeId)
    // A character has at most three bytes.
    const texts = 3 * ((key?.length ?? 0) + (bodyHash?.length ?? 0))
    this.#reserve(1 + rowHeadBytes + texts + body.length)
    const buffer = this.#buffer
    buffer[this.#length] = kinds.row
    const at = this.#length + 1
    const keyStart = at + rowHeadBytes
    const keyBytes = key === null ? 0 : buffer.write(key, keyStart, 'utf8')
    const hashBytes = bodyHash === null ? 0 : buffer.write(bodyHash, keyStart + keyBytes, 'latin1')
    buffer.writeUInt32LE(body.length, at)
    buffer.writeUInt32LE(crc, at + 4)
    buffer.writeDoubleLE(seq, at + 8)
    buffer.writeDoubleLE(receivedMs, at + 16)
    buffer.writeDoubleLE(messages, at + 24)
    buffer.writeDoubleLE(records, at + 32)
    buffer.writeDoubleLE(bytes, at + 40)
    buffer.writeUInt32LE(recordCount, at + 48)
    buffer.writeUInt32LE(pipe, at + 52)
    buffer.writeUInt16LE(keyBytes, at + 56)
    buffer.writeUInt16LE(hashBytes, at + 58)
    buffer.write(msgId, at + 60, idCharacters, 'latin1')
    const bodyStart = keyStart + keyBytes + hashBytes
    buffer.set(body, bodyStart)
    this.#length = bodyStart + body.length
  }

  head({ firstSeq, segmentId, previousSegmentId, epoch, ...head }: SegmentHead): void {
    this.#kind(kinds.head)
    this.#numbers(firstSeq)
    this.#text(segmentId)
    this.#text(previousSegmentId ?? '')
    this.#numbers(epoch, head.begunClockMs, head.previousLastSeq)
    this.#kind(head.isSalvaged ? 1 : 0)
    this.#count(head.holes.length)
    for (const hole of head.holes) this.#numbers(hole.firstSeq, hole.lastSeq)
    this.#count(head.bases.length)
    for (const { pipeId, position } of head.bases) {
      this.#text(pipeId)
      this.#numbers(position.seq, position.messages, position.records, position.bytes)
    }
  }

  /** The complete batch. Nothing may be added afterwards. */
  finish(facts: Omit<RowBatch, 'items'>): Buffer {
    const batch = this.#buffer.subarray(0, this.#length)
    batch.fill(0, 0, batchHeadBytes)
    batch.set(magic)
    batch[4] = version
    batch.writeUInt32LE(this.bytes, 8)
    batch.writeDoubleLE(facts.afterSeq, 16)
    batch.writeDoubleLE(facts.clockMs, 24)
    batch.writeDoubleLE(facts.oldestKeptSeq, 32)
    batch.writeUInt32LE(checksum(batch), crcAt)
    return batch
  }

  #addPipe(pipeId: string): number {
    this.#kind(kinds.pipe)
    this.#text(pipeId)
    const index = this.#pipes.size
    this.#pipes.set(pipeId, index)
    return index
  }

  #kind(kind: number): void {
    this.#reserve(1)
    this.#buffer[this.#length] = kind
    this.#length += 1
  }

  #count(count: number): void {
    this.#reserve(4)
    this.#length = this.#buffer.writeUInt32LE(count, this.#length)
  }

  #numbers(...values: number[]): void {
    this.#reserve(8 * values.length)
    for (const value of values) this.#length = this.#buffer.writeDoubleLE(value, this.#length)
  }

  #text(text: string): void {
    this.#reserve(2 + 3 * text.length)
    const bytes = this.#buffer.write(text, this.#length + 2, 'utf8')
    this.#buffer.writeUInt16LE(bytes, this.#length)
    this.#length += 2 + bytes
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes
    if (needed <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#fullBytes, this.#buffer.length * 2))
    this.#buffer.copy(larger, 0, 0, this.#length)
    this.#buffer = larger
  }
}

function checksum(batch: Buffer): number {
  return crc32(batch.subarray(checkedFrom), crc32(batch.subarray(0, crcAt)))
}

/** True when the row can be encoded without loss. Any row that a writer has committed can. */
export function isEncodable(row: MessageRow): boolean {
  const [seq, , msgId, receivedMs, recordCount, crc, messages, records, bytes, key, body, bodyHash] = row
  return (
    [seq, messages, records, bytes].every(isCount) &&
    typeof receivedMs === 'number' &&
    isCount(recordCount) &&
    recordCount <= maxU32 &&
    isCount(crc) &&
    crc <= maxU32 &&
    typeof msgId === 'string' &&
    msgId.length === idCharacters &&
    isShort(key) &&
    isShort(bodyHash) &&
    Buffer.isBuffer(body)
  )
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0

/** '' and null would be the same when decoded. */
const isShort = (text: unknown) =>
  text === null || (typeof text === 'string' && text !== '' && text.length * 3 <= maxText)

/** Throws RowBatchError when the batch is not exactly what was encoded. */
export function decodeRowBatch(batch: Buffer): RowBatch {
  if (batch.length < batchHeadBytes || !batch.subarray(0, 4).equals(magic))
    throw new RowBatchError('this is not a batch of rows of the log')
  if (batch[4] !== version)
    throw new RowBatchError(`a batch of rows of version ${batch[4]}, which this version does not know`)
  if (
    batch.readUInt32LE(8) !== batch.length - batchHeadBytes ||
    checksum(batch) !== batch.readUInt32LE(crcAt)
  )
    throw new RowBatchError('the batch of rows is damaged: its checksum is wrong')
  return {
    afterSeq: batch.readDoubleLE(16),
    clockMs: batch.readDoubleLE(24),
    oldestKeptSeq: batch.readDoubleLE(32),
    items: () => decodeItems(batch),
  }
}

function* decodeItems(batch: Buffer): ReturnType<RowBatch['items']> {
  const from = new Cursor(batch, batchHeadBytes)
  const pipes: string[] = []
  while (!from.isAtEnd) {
    const kind = from.u8()
    if (kind === kinds.pipe) pipes.push(from.text())
    else if (kind === kinds.row) yield { kind: 'row', row: decodeRow(from.take(rowHeadBytes), from, pipes) }
    else if (kind === kinds.head) yield { kind: 'head', head: decodeHead(from) }
    else throw new RowBatchError(`the batch of rows has an item of kind ${kind}`)
  }
}

function decodeRow(head: Buffer, from: Cursor, pipes: readonly string[]): EncodedRow {
  const pipeId = pipes[head.readUInt32LE(52)]
  if (pipeId === undefined) throw new RowBatchError('a row of the batch names no pipe')
  const [keyBytes, hashBytes] = [head.readUInt16LE(56), head.readUInt16LE(58)]
  return {
    pipeId,
    crc: head.readUInt32LE(4),
    seq: head.readDoubleLE(8),
    receivedMs: head.readDoubleLE(16),
    messages: head.readDoubleLE(24),
    records: head.readDoubleLE(32),
    bytes: head.readDoubleLE(40),
    recordCount: head.readUInt32LE(48),
    msgId: head.toString('latin1', 60, 60 + idCharacters),
    idempotencyKey: keyBytes === 0 ? null : from.take(keyBytes).toString('utf8'),
    bodyHash: hashBytes === 0 ? null : from.take(hashBytes).toString('latin1'),
    body: from.take(head.readUInt32LE(0)),
  }
}

function decodeHead(from: Cursor): SegmentHead {
  const firstSeq = from.f64()
  const segmentId = from.text()
  const previousSegmentId = from.text() || null
  const [epoch, begunClockMs, previousLastSeq] = [from.f64(), from.f64(), from.f64()]
  const isSalvaged = from.u8() === 1
  const holes = from.list(() => ({ firstSeq: from.f64(), lastSeq: from.f64() }))
  const bases = from.list(() => ({
    pipeId: from.text(),
    position: { seq: from.f64(), messages: from.f64(), records: from.f64(), bytes: from.f64() },
  }))
  return {
    firstSeq,
    segmentId,
    previousSegmentId,
    epoch,
    begunClockMs,
    previousLastSeq,
    isSalvaged,
    holes,
    bases,
  }
}

/** Reads a batch from front to back. Nothing beyond its end is read, and nothing is copied but texts. */
class Cursor {
  readonly #batch: Buffer
  #at: number

  constructor(batch: Buffer, at: number) {
    this.#batch = batch
    this.#at = at
  }

  get isAtEnd(): boolean {
    return this.#at === this.#batch.length
  }

  take(bytes: number): Buffer {
    const end = this.#at + bytes
    if (end > this.#batch.length) throw new RowBatchError('the batch of rows ends within an item')
    const taken = this.#batch.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  u8(): number {
    return this.take(1).readUInt8()
  }

  f64(): number {
    return this.take(8).readDoubleLE()
  }

  text(): string {
    return this.take(this.take(2).readUInt16LE()).toString('utf8')
  }

  list<T>(entry: () => T): T[] {
    const entries: T[] = []
    for (let left = this.take(4).readUInt32LE(); left > 0; left -= 1) entries.push(entry())
    return entries
  }
}
