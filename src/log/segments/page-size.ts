/**
 * Determines the page size of a SQLite file without SQLite, even when its header is damaged.
 *
 *   file   16 u16 page bytes        WAL   8 u32 page bytes
 *
 * One flipped bit cannot turn one of our two sizes into the other, because they differ in two bits. When neither header
 * has one of our sizes, leaf headers decide: three of four small pages start at an offset where no large page does.
 */
import { largePageBytes, smallPageBytes } from './layout.ts'
import { type ReadableFile, readAt } from './readable-file.ts'

const leafHeadBytes = 8
/** The number of possible page starts that are checked: the first 16 MiB. */
const maxProbes = 4096

/** The page size of one of our files. `wal` is its WAL. */
export function pageBytesOf(file: ReadableFile, wal: ReadableFile | null): number {
  const stated = readAt(file, 16, 2)?.readUInt16BE(0)
  if (isOurs(stated)) return stated
  const statedByWal = wal === null ? undefined : readAt(wal, 8, 4)?.readUInt32BE(0)
  return isOurs(statedByWal) ? statedByWal : guess(file)
}

function isOurs(bytes: number | undefined): bytes is number {
  return bytes === smallPageBytes || bytes === largePageBytes
}

function guess(file: ReadableFile): number {
  const places = Math.min(Math.floor(file.bytes / smallPageBytes), maxProbes)
  const leaves = { ofEither: 0, ofSmall: 0 }
  for (let place = 1; place < places; place += 1) {
    const at = place * smallPageBytes
    const isOfEither = at % largePageBytes === 0
    const head = readAt(file, at, leafHeadBytes)
    if (head === null || !isLeafHead(head, isOfEither ? largePageBytes : smallPageBytes)) continue
    leaves[isOfEither ? 'ofEither' : 'ofSmall'] += 1
  }
  // The middle of a large page can look like a leaf, but rarely does.
  return leaves.ofSmall > leaves.ofEither ? smallPageBytes : largePageBytes
}

/** See page-reader.ts. */
function isLeafHead(head: Buffer, pageBytes: number): boolean {
  if (head[0] !== leafTable && head[0] !== leafIndex) return false
  const [firstFree, cells, begin] = [head.readUInt16BE(1), head.readUInt16BE(3), head.readUInt16BE(5)]
  return firstFree < pageBytes && leafHeadBytes + 2 * cells <= begin && begin <= pageBytes
}

/** The pages and records of SQLite's file format, for code that reads files without SQLite. */
/** The first byte of a page. */
export const leafTable = 13
export const leafIndex = 10
/** The bytes before the header of the first page. */
export const fileHeadBytes = 100

/** How a payload is split between leaf and overflow pages, by page size. */
export interface PageLayout {
  pageBytes: number
  /** Payload bytes of an overflow page, after the number of the next one. */
  overflowPayload: number
  /** The longest payload that is stored in a leaf completely, */
  maxLocal: { table: number; index: number }
  /** and the minimum part of a longer one that is stored there. */
  minLocal: number
}

export function pageLayout(pageBytes: number): PageLayout {
  return {
    pageBytes,
    overflowPayload: pageBytes - 4,
    maxLocal: { table: pageBytes - 35, index: Math.floor(((pageBytes - 12) * 64) / 255) - 23 },
    minLocal: Math.floor(((pageBytes - 12) * 32) / 255) - 23,
  }
}

/** The number of payload bytes that are stored in the leaf itself. */
export function localBytes(layout: PageLayout, kind: 'table' | 'index', payloadBytes: number): number {
  const { minLocal, overflowPayload } = layout
  const most = layout.maxLocal[kind]
  if (payloadBytes <= most) return payloadBytes
  const local = minLocal + ((payloadBytes - minLocal) % overflowPayload)
  return local <= most ? local : minLocal
}

const numberBytes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0]

/**
 * Size of a column by its serial type: 0 null, 1 to 6 integers, 7 double, 8 and 9 the numbers 0 and 1, from 12 on blobs
 * (even) and text (odd). Infinity for an invalid type, so that no length matches it.
 */
export function bytesOfType(type: number): number {
  if (type >= 12) return Math.floor((type - 12) / 2)
  return numberBytes[type] ?? Number.POSITIVE_INFINITY
}
