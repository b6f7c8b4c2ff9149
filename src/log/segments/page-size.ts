/**
 * The size of the pages of a SQLite file, found without SQLite, also where its head is damaged.
 *
 *   file   16 u16 page bytes        WAL   8 u32 page bytes
 *
 * One flipped bit does not make one of our two sizes the other: they differ in two. Where neither head says a size of ours,
 * the heads of leaves tell: of small pages, three of four begin where no large one does.
 */
import { largePageBytes, smallPageBytes } from './layout.ts'
import { type ReadableFile, readAt } from './readable-file.ts'

const leafHeadBytes = 8
/** So many places where a page may begin are looked at: the first 16 MiB. */
const mostLooks = 4096

/** The page size of one of our files. `wal`: its WAL. */
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
  const places = Math.min(Math.floor(file.bytes / smallPageBytes), mostLooks)
  const leaves = { ofEither: 0, ofSmall: 0 }
  for (let place = 1; place < places; place += 1) {
    const at = place * smallPageBytes
    const isOfEither = at % largePageBytes === 0
    const head = readAt(file, at, leafHeadBytes)
    if (head === null || !isLeafHead(head, isOfEither ? largePageBytes : smallPageBytes)) continue
    leaves[isOfEither ? 'ofEither' : 'ofSmall'] += 1
  }
  // The middle of a large page can look like a leaf, but does so seldom.
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
/** The bytes before the first page's own head. */
export const fileHeadBytes = 100

/** The amounts that fit into each part, by the size of a page. */
export interface PageLayout {
  pageBytes: number
  /** An overflow page begins with the number of the next one. */
  overflowPayload: number
  /** The longest payload that lies in a leaf as a whole, */
  mostLocal: { table: number; index: number }
  /** and of a longer one, what lies there at least. */
  leastLocal: number
}

export function pageLayout(pageBytes: number): PageLayout {
  return {
    pageBytes,
    overflowPayload: pageBytes - 4,
    mostLocal: { table: pageBytes - 35, index: Math.floor(((pageBytes - 12) * 64) / 255) - 23 },
    leastLocal: Math.floor(((pageBytes - 12) * 32) / 255) - 23,
  }
}

/** The bytes of a payload that are in the leaf itself. */
export function localBytes(layout: PageLayout, kind: 'table' | 'index', payloadBytes: number): number {
  const { leastLocal, overflowPayload } = layout
  const most = layout.mostLocal[kind]
  if (payloadBytes <= most) return payloadBytes
  const local = leastLocal + ((payloadBytes - leastLocal) % overflowPayload)
  return local <= most ? local : leastLocal
}

const numberBytes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0]

/**
 * Bytes of a column by its serial type: 0 null, 1 to 6 integers, 7 double, 8 and 9 the numbers 0 and 1, from 12 on blobs
 * (even) and text (odd). Infinite for a type that does not exist, so that no length agrees with it.
 */
export function bytesOfType(type: number): number {
  if (type >= 12) return Math.floor((type - 12) / 2)
  return numberBytes[type] ?? Number.POSITIVE_INFINITY
}
