/**
 * The messages of a sealed segment with the checksum that each row has by its bytes, for `check-segment.ts`. It is the
 * same as row-checksum.ts makes, of the columns as they lie in the record: text is not decoded, and one object serves
 * all rows (MB/s of CPU on one core, bodies of 300 bytes and of 1 KB: 165 and 400; through SQLite 40 and 100).
 *
 * Integer-valued doubles are stored as integers; page-format.ts has the types.
 *
 *   record   varint header bytes, varint type of each column, columns
 */
import { crc32 } from 'node:zlib'
import { bytesOfType } from './page-format.ts'
import type { SegmentFormat } from './row-checksum.ts'
import { readTable } from './sealed-pages.ts'

/** Valid until the next row. */
export interface SealedRow {
  seq: number
  pipeNo: number
  messages: number
  records: number
  bytes: number
  /** As stored, and as the row's bytes give it. */
  crc: number
  foundCrc: number
  bodyBytes: number
}

const columnCount = 12
const [pipe, msgId, received, recordCount, crc, messages, records, totalBytes, key, body, bodyHash] = [
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
] as const
const newline = 0x0a

/** A sealed segment's, or any file that nobody writes. */
export interface SealedTable {
  file: string
  pageBytes: number
  rootPage: number
}

/** Throws SQLITE_CORRUPT. `pipeIds` by their numbers; a row of another pipe has no right checksum. */
export function readSealedRows(
  { file, pageBytes, rootPage }: SealedTable,
  format: SegmentFormat,
  pipeIds: ReadonlyMap<number, string>,
  onRow: (row: SealedRow) => void,
): void {
  const ids = new Map([...pipeIds].map(([no, id]) => [no, Buffer.from(id)]))
  const record = new RecordReader(format, ids)
  readTable(file, pageBytes, rootPage, (id, bytes, start, length) =>
    onRow(record.read(id, bytes, start, length)),
  )
}

class RecordReader {
  readonly #format: SegmentFormat
  readonly #pipeIds: ReadonlyMap<number, Buffer>
  readonly #row: SealedRow = {
    ...{ seq: 0, pipeNo: 0, messages: 0, records: 0, bytes: 0, crc: 0, foundCrc: 0, bodyBytes: 0 },
  }
  readonly #types = new Int32Array(columnCount)
  readonly #offsets = new Int32Array(columnCount)
  #text = Buffer.allocUnsafe(4096)
  #length = 0

  constructor(format: SegmentFormat, pipeIds: ReadonlyMap<number, Buffer>) {
    this.#format = format
    this.#pipeIds = pipeIds
  }

  read(seq: number, bytes: Buffer, start: number, length: number): SealedRow {
    this.#findColumns(bytes, start, length)
    const row = this.#row
    row.seq = seq
    row.pipeNo = this.#number(bytes, pipe)
    row.messages = this.#number(bytes, messages)
    row.records = this.#number(bytes, records)
    row.bytes = this.#number(bytes, totalBytes)
    row.crc = this.#number(bytes, crc)
    row.bodyBytes = this.#size(body)
    const at = this.#offsets[body]!
    const bodyCrc = crc32(bytes.subarray(at, at + row.bodyBytes))
    row.foundCrc = this.#format === 1 ? bodyCrc : crc32(this.#header(bytes), bodyCrc)
    return row
  }

  /** As `headerText` of row-checksum.ts. */
  #header(bytes: Buffer): Buffer {
    const { seq, pipeNo, messages: count, records: sum, bytes: total } = this.#row
    this.#length = 0
    // The longest: a key, and numbers.
    const most = this.#size(key) + this.#size(bodyHash) + this.#size(msgId) + 512
    if (most > this.#text.length) this.#text = Buffer.allocUnsafe(2 * most)
    this.#addNumber(seq)
    this.#addBytes(this.#pipeIds.get(pipeNo) ?? null)
    this.#addColumn(bytes, msgId)
    this.#addNumber(this.#number(bytes, received))
    this.#addNumber(this.#number(bytes, recordCount))
    this.#addNumber(count)
    this.#addNumber(sum)
    this.#addNumber(total)
    this.#addColumn(bytes, bodyHash)
    if (this.#types[key] !== 0) {
      this.#text[this.#length++] = 0x3d
      this.#addColumn(bytes, key)
      // The key is the last: nothing follows it.
      this.#length -= 1
    }
    return this.#text.subarray(0, this.#length)
  }

  #findColumns(bytes: Buffer, start: number, length: number): void {
    const types = this.#types
    let at = start + 1
    // Twelve columns have a short header: one byte says how long it is.
    const headerEnd = start + bytes[start]!
    let column = 0
    let offset = headerEnd
    while (at < headerEnd && column < columnCount) {
      let type = 0
      for (;;) {
        const byte = bytes[at++]!
        type = type * 128 + (byte & 0x7f)
        if (byte < 0x80) break
      }
      types[column] = type
      this.#offsets[column] = offset
      offset += bytesOfType(type)
      column += 1
    }
    // A column that was added later is not in older rows.
    for (; column < columnCount; column += 1) types[column] = 0
    if (offset !== start + length) throw corrupt()
  }

  #size(column: number): number {
    return bytesOfType(this.#types[column]!)
  }

  #number(bytes: Buffer, column: number): number {
    const type = this.#types[column]!
    const at = this.#offsets[column]!
    switch (type) {
      case 8:
        return 0
      case 9:
        return 1
      case 1:
        return bytes.readInt8(at)
      case 2:
        return bytes.readInt16BE(at)
      case 4:
        return bytes.readInt32BE(at)
      case 3:
      case 5:
        return bytes.readIntBE(at, bytesOfType(type))
      case 6:
        return Number(bytes.readBigInt64BE(at))
      case 7:
        return bytes.readDoubleBE(at)
    }
    throw corrupt()
  }

  #addNumber(value: number): void {
    const text = this.#text
    if (!Number.isSafeInteger(value) || value < 0) {
      this.#length += text.write(String(value), this.#length, 'latin1')
    } else {
      let end = this.#length + digitsOf(value)
      this.#length = end
      let rest = value
      do {
        const tenth = Math.floor(rest / 10)
        text[--end] = 0x30 + (rest - tenth * 10)
        rest = tenth
      } while (rest > 0)
    }
    text[this.#length++] = newline
  }

  #addColumn(bytes: Buffer, column: number): void {
    const at = this.#offsets[column]!
    const size = this.#size(column)
    if (this.#types[column] !== 0) bytes.copy(this.#text, this.#length, at, at + size)
    this.#length += size
    this.#text[this.#length++] = newline
  }

  #addBytes(bytes: Buffer | null): void {
    if (bytes !== null) this.#length += bytes.copy(this.#text, this.#length)
    this.#text[this.#length++] = newline
  }
}

function digitsOf(value: number): number {
  let digits = 1
  for (let limit = 10; value >= limit; limit *= 10) digits += 1
  return digits
}

function corrupt(): Error {
  return Object.assign(new Error('a row is not what it should be'), { code: 'SQLITE_CORRUPT' })
}
