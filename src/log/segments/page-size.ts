/**
 * The size of the pages of a SQLite file, found without SQLite, also where its head is damaged.
 *
 *   file   16 u16 page bytes        WAL   8 u32 page bytes
 *
 * One flipped bit does not make one of our two sizes the other: they differ in two. Where neither head says a size of ours,
 * the heads of leaves tell: of small pages, three of four begin where no large one does.
 */
import { largePageBytes, smallPageBytes } from './layout.ts'
import { leafIndex, leafTable } from './page-format.ts'
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
