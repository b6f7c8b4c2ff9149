/**
 * Finds rows in a damaged SQLite file by scanning every page instead of following the tree. So it finds rows that a
 * broken page makes unreachable for SQLite. It knows pages, cells and records but not their meaning: the caller checks
 * a cell's types, reads it, and verifies it by its checksum.
 *
 *   leaf page    0 u8 13 (table) or 10 (index)   3 u16 cells   5 u16 where cells begin   8 u16 each cell's offset
 *   table cell   varint payload bytes, varint rowid, payload     index cell: the same without a rowid
 *   payload      varint header bytes, varint type of each column, columns; the part that does not fit is in overflow
 *                pages: u32 the next one, then bytes
 *
 * A page with one flipped bit in its header still yields its cells: a type that differs by one bit is accepted, and
 * when the cell count contradicts the offsets, offsets are used as long as they are plausible. An overflow page, which
 * holds data of clients, starts with a page number and cannot be mistaken for a leaf.
 *
 * The work is bounded for any content: a cell's length is at most the file's, an overflow chain has as many pages as
 * its length needs, and all chains together are followed for a small multiple of the file's pages.
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
  /** The rowid of a table cell. */
  rowid: number
  /** SQLite's serial types, one per column. */
  types: readonly number[]
  /** Null when it cannot be read. Callable only until the generator continues. */
  read(): ColumnValue[] | null
}

const leafHeadBytes = 8
/** No table of a segment has more columns. */
const maxColumns = 64
/** After this many pages a scan pauses, so that its caller can do other work. */
const pauseAfterPages = 64
/** Chain pages that are followed per page of the file. In a sound file each page is in at most one chain. */
const maxChainsPerPage = 8

/** Yields all cells of all leaf pages, in page order. Null marks a pause. */
export function* readCells(file: PageFile): Generator<Cell | null> {
  const chains = new OverflowChains(file, pageLayout(file.pageBytes))
  for (let pageNo = 1; pageNo <= file.pageCount; pageNo += 1) {
    if (pageNo % pauseAfterPages === 0) yield null
    const found = file.read(pageNo)
    if (found === null) continue
    const head = pageNo === 1 ? fileHeadBytes : 0
    const kind = leafKind(found[head] ?? 0)
    if (kind === null) continue
    // Copied, because following a chain reads other pages into the same memory.
    const page = Buffer.from(found)
    for (const offset of cellOffsets(page, head)) {
      const cell = decodeCell(page, offset, kind, chains)
      if (cell !== null) yield cell
    }
  }
}

function leafKind(type: number): Cell['kind'] | null {
  if (type === leafTable || type === leafIndex) return type === leafTable ? 'table' : 'index'
  // The types of inner pages, 2 and 5, also differ from a leaf by one bit, but none of their cells reads as a row.
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
    // A consistent header is trusted; otherwise the offsets up to the first cell are used.
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
  if (length.value < 2 || length.value > chains.maxBytes || !Number.isSafeInteger(rowid.value)) return null
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
    if (type.end > bytes || types.length === maxColumns || !Number.isSafeInteger(type.value)) return null
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

/** Returns NaN for an integer that is not safe. */
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

/** Up to 8 big-endian groups of 7 bits, then one full byte. Returns NaN when the bytes end too early. */
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
  readonly maxBytes: number
  readonly #file: PageFile
  #pagesLeft: number

  constructor(file: PageFile, layout: PageLayout) {
    this.#file = file
    this.layout = layout
    this.maxBytes = file.pageCount * layout.pageBytes
    this.#pagesLeft = (file.pageCount + 1) * maxChainsPerPage
  }

  /**
   * Reads the payload that begins with `start` and continues in the overflow pages from `firstPage`; null when one of
   * them cannot be read.
   */
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
