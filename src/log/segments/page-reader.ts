/**
 * Finds the rows in a damaged SQLite file by looking at every page, without its tree: what a broken page makes
 * unreachable for SQLite is still found. It knows pages, cells and records, not what they mean: the caller looks at a
 * cell's types, reads it, and judges by a checksum whether it is what was written.
 *
 *   leaf page    0 u8 13 (table) or 10 (index)   3 u16 cells   5 u16 where cells begin   8 u16 each cell's offset
 *   table cell   varint payload bytes, varint rowid, payload     index cell: the same without a rowid
 *   payload      varint header bytes, varint type of each column, columns; the part that does not fit is in overflow
 *                pages: u32 the next one, then bytes
 *
 * A page with a bit flipped in its head still gives up its cells: the type may be off by one bit, and where the number
 * of cells does not agree with their offsets, offsets are taken for as long as they can be ones. An overflow page, which
 * holds what clients sent, begins with the number of a page: it cannot be taken for a leaf.
 *
 * Bounded whatever the file holds: a cell's length is at most the file's, an overflow chain has as many pages as its
 * length needs, and all chains together are followed for a small multiple of the file's pages.
 */
import type { PageFile } from './page-file.ts'
import {
  bytesOfType,
  fileHeadBytes,
  leafIndex,
  leafTable,
  localBytes,
  type PageLayout,
  pageLayout,
} from './page-size.ts'

export type ColumnValue = null | number | string | Buffer

export interface Cell {
  kind: 'table' | 'index'
  /** The rowid of a table's cell. */
  rowid: number
  /** SQLite's serial types, one per column. */
  types: readonly number[]
  /** Null when it cannot be read. Only while the generator waits at this cell. */
  read(): ColumnValue[] | null
}

const leafHeadBytes = 8
/** No table of a segment has more. */
const mostColumns = 64
/** After so many pages a scan gives its caller time for something else. */
const pauseAfterPages = 64
/** How many pages of chains are followed per page of the file. A sound file has each page in one chain at most. */
const mostChainsPerPage = 8

/** All cells of all leaf pages, in the order of pages. Null: a place to pause. */
export function* readCells(file: PageFile): Generator<Cell | null> {
  const chains = new OverflowChains(file, pageLayout(file.pageBytes))
  for (let pageNo = 1; pageNo <= file.pageCount; pageNo += 1) {
    if (pageNo % pauseAfterPages === 0) yield null
    const found = file.read(pageNo)
    if (found === null) continue
    const head = pageNo === 1 ? fileHeadBytes : 0
    const kind = leafKind(found[head] ?? 0)
    if (kind === null) continue
    // Following a chain reads other pages into the same memory.
    const page = Buffer.from(found)
    for (const offset of cellOffsets(page, head)) {
      const cell = decodeCell(page, offset, kind, chains)
      if (cell !== null) yield cell
    }
  }
}

function leafKind(type: number): Cell['kind'] | null {
  if (type === leafTable || type === leafIndex) return type === leafTable ? 'table' : 'index'
  // Inner pages, 2 and 5, are one bit from a leaf too; no cell of theirs reads as a row.
  return isPowerOfTwo(type ^ leafTable) ? 'table' : null
}

function isPowerOfTwo(value: number): boolean {
  return value !== 0 && (value & (value - 1)) === 0
}

function cellOffsets(page: Buffer, head: number): number[] {
  const first = head + leafHeadBytes
  const count = page.readUInt16BE(head + 3)
  const begin = page.readUInt16BE(head + 5)
  const most = Math.floor((page.length - first) / 2)
  const offsets: number[] = []
  let lowest = page.length
  for (let index = 0; index < most; index += 1) {
    const at = first + index * 2
    // Where the head is in order it is believed; else there are offsets up to the first cell.
    if (index >= count && lowest === begin) break
    if (at + 2 > lowest) break
    const offset = page.readUInt16BE(at)
    if (offset < at + 2 || offset > page.length - 4) continue
    lowest = Math.min(lowest, offset)
    offsets.push(offset)
  }
  return offsets
}

function decodeCell(page: Buffer, offset: number, kind: Cell['kind'], chains: OverflowChains): Cell | null {
  const length = readVarint(page, offset)
  const rowid = kind === 'table' ? readVarint(page, length.end) : { value: 0, end: length.end }
  if (length.value < 2 || length.value > chains.mostBytes || !Number.isSafeInteger(rowid.value)) return null
  const local = localBytes(chains.layout, kind, length.value)
  const isWhole = local === length.value
  const localEnd = rowid.end + local
  if (localEnd + (isWhole ? 0 : 4) > page.length) return null
  const start = page.subarray(rowid.end, localEnd)
  const header = decodeHeader(start)
  if (header === null || header.bytes + header.bodyBytes !== length.value) return null
  const { types, bytes: headerBytes } = header
  return {
    kind,
    rowid: rowid.value,
    types,
    read() {
      const payload = isWhole ? start : chains.read(start, page.readUInt32BE(localEnd), length.value)
      return payload === null ? null : decodeColumns(payload.subarray(headerBytes), types)
    },
  }
}

function decodeHeader(payload: Buffer): { bytes: number; bodyBytes: number; types: number[] } | null {
  const { value: bytes, end } = readVarint(payload, 0)
  if (bytes < end || bytes > payload.length) return null
  const types: number[] = []
  let bodyBytes = 0
  for (let at = end; at < bytes; ) {
    const type = readVarint(payload, at)
    if (type.end > bytes || types.length === mostColumns || !Number.isSafeInteger(type.value)) return null
    types.push(type.value)
    bodyBytes += bytesOfType(type.value)
    at = type.end
  }
  return { bytes, bodyBytes, types }
}

export function isTextOf(type: number | undefined, bytes: number): boolean {
  return type === 13 + 2 * bytes
}

function decodeColumns(body: Buffer, types: readonly number[]): ColumnValue[] | null {
  const columns: ColumnValue[] = []
  let at = 0
  for (const type of types) {
    const end = at + bytesOfType(type)
    const value = decodeColumn(body.subarray(at, end), type)
    if (typeof value === 'number' && Number.isNaN(value)) return null
    columns.push(value)
    at = end
  }
  return columns
}

/** NaN for an integer that is not a safe one. */
function decodeColumn(bytes: Buffer, type: number): ColumnValue {
  if (type === 0) return null
  if (type <= 5) return bytes.readIntBE(0, bytes.length)
  if (type === 6) {
    const value = Number(bytes.readBigInt64BE(0))
    return Number.isSafeInteger(value) ? value : Number.NaN
  }
  if (type === 7) return bytes.readDoubleBE(0)
  if (type <= 9) return type - 8
  return type % 2 === 0 ? bytes : bytes.toString('utf8')
}

/** Big-endian groups of 7 bits, at most 8, then one whole byte. NaN where it runs out of the bytes. */
function readVarint(bytes: Buffer, at: number): { value: number; end: number } {
  let value = 0
  for (let index = 0; index < 9; index += 1) {
    const byte = bytes[at + index]
    if (byte === undefined) return { value: Number.NaN, end: bytes.length }
    if (index === 8) return { value: value * 256 + byte, end: at + 9 }
    value = value * 128 + (byte & 0x7f)
    if (byte < 0x80) return { value, end: at + index + 1 }
  }
  return { value, end: at + 9 }
}

class OverflowChains {
  readonly layout: PageLayout
  /** No payload can be longer. */
  readonly mostBytes: number
  readonly #file: PageFile
  #pagesLeft: number

  constructor(file: PageFile, layout: PageLayout) {
    this.#file = file
    this.layout = layout
    this.mostBytes = file.pageCount * layout.pageBytes
    this.#pagesLeft = (file.pageCount + 1) * mostChainsPerPage
  }

  /** The payload that begins with `start` and goes on in the given page; null when one of its pages cannot be read. */
  read(start: Buffer, firstPage: number, bytes: number): Buffer | null {
    const { overflowPayload } = this.layout
    const parts = [start]
    let next = firstPage
    for (let left = bytes - start.length; left > 0; left -= overflowPayload) {
      this.#pagesLeft -= 1
      const page = this.#pagesLeft < 0 ? null : this.#file.readInChain(next)
      if (page === null) return null
      parts.push(Buffer.from(page.subarray(4, 4 + Math.min(left, overflowPayload))))
      next = page.readUInt32BE(0)
    }
    return Buffer.concat(parts, bytes)
  }
}
