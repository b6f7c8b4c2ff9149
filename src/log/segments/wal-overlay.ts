/**
 * Reads SQLite's write-ahead log without SQLite and locates the newest committed image of each page.
 *
 * SQLite stops at the first frame whose checksum fails and overwrites everything after it, so one bad bit loses all
 * later commits. But the checksums form a chain and each frame stores its own checksum. So a frame can be verified with
 * the stored checksum of the previous frame, even if that frame's page is damaged. Here a damaged frame loses only
 * itself and, if its checksum is damaged, the next one.
 *
 *   header  0 u32 magic, 0x377f0682 or …83   4 version   8 page size   12 checkpoints   16 two salts   24 two checksums
 *   frame   0 u32 page number   4 u32 pages of the database after a commit, else 0   8 two salts   16 two checksums
 *           24 the page
 *
 * Frames from before the last reset of the log have other salts. Everything is bounded by the size of the file.
 */

import { fileBytes, type SegmentName, segmentFile } from './layout.ts'
import { pageBytesOf } from './page-size.ts'
import { closeReadable, openReadable, type ReadableFile, readAt } from './readable-file.ts'
import { readContentIfUsable } from './segment-facts.ts'

const headerBytes = 32
const frameHeaderBytes = 24
const magicLittleEndian = 0x377f0682
const magicBigEndian = 0x377f0683

export interface WalOverlay {
  /** Offset in the WAL of each page's newest committed image. */
  pages: ReadonlyMap<number, number>
  /**
   * Number of commits after the first unreadable frame, where SQLite would stop. One can be the end of a transaction
   * that a power cut tore, which was never acknowledged; more than one means damage.
   */
  commitsBehindDamage: number
}

export const noOverlay: WalOverlay = { pages: new Map(), commitsBehindDamage: 0 }

interface Frame {
  pageNo: number
  offset: number
}

/** Reads a WAL that no process is writing. `pageBytes` is the page size of its database. */
export function readWalOverlay(wal: ReadableFile, pageBytes: number): WalOverlay {
  const frameBytes = frameHeaderBytes + pageBytes
  const frames: Frame[] = []
  let committed = 0
  let commitsBehindDamage = 0
  const start = chainStart(wal, pageBytes)
  let { salts, link } = start
  let hasSkipped = link === null && wal.bytes > headerBytes
  for (let at = headerBytes; at + frameBytes <= wal.bytes; at += frameBytes) {
    const frame = readAt(wal, at, frameBytes)
    const ownLink = frame?.subarray(16, 24) ?? null
    // If the header is lost, the first frame has the salts: the newest round of writing always starts there.
    salts ??= frame?.subarray(8, 16) ?? null
    if (continuesChain(frame, { ...start, salts, link })) {
      frames.push({ pageNo: frame.readUInt32BE(0), offset: at + frameHeaderBytes })
      if (frame.readUInt32BE(4) > 0) {
        committed = frames.length
        if (hasSkipped) commitsBehindDamage += 1
      }
    } else {
      hasSkipped = true
    }
    link = ownLink
  }
  const pages = new Map(frames.slice(0, committed).map(({ pageNo, offset }) => [pageNo, offset]))
  return { pages, commitsBehindDamage }
}

interface Chain {
  /** Null until a frame of this round was seen. */
  salts: Buffer | null
  /** The checksums that the next frame continues; null when they cannot be read. */
  link: Buffer | null
  isBigEndian: boolean
}

/**
 * The start of the chain, from the header. The magic number defines the byte order of words. Segments are written on the
 * machine that reads them, so the machine's own order is used when the header is damaged.
 */
function chainStart(wal: ReadableFile, pageBytes: number): Chain {
  const header = readAt(wal, 0, headerBytes)
  if (header === null || !hasSoundHeader(header, pageBytes))
    return { salts: null, link: null, isBigEndian: false }
  const isBigEndian = header.readUInt32BE(0) === magicBigEndian
  return { salts: header.subarray(16, 24), link: header.subarray(24, 32), isBigEndian }
}

function continuesChain(frame: Buffer | null, { salts, link, isBigEndian }: Chain): frame is Buffer {
  if (frame === null || link === null || salts?.equals(frame.subarray(8, 16)) !== true) return false
  return linkAfter(link, frame, isBigEndian).equals(frame.subarray(16, 24))
}

function hasSoundHeader(header: Buffer, pageBytes: number): boolean {
  const magic = header.readUInt32BE(0)
  if (magic !== magicLittleEndian && magic !== magicBigEndian) return false
  if (header.readUInt32BE(8) !== pageBytes) return false
  const sums = checksum(Buffer.alloc(8), header.subarray(0, 24), magic === magicBigEndian)
  return sums.equals(header.subarray(24, 32))
}

function linkAfter(link: Buffer, frame: Buffer, isBigEndian: boolean): Buffer {
  const afterHeader = checksum(link, frame.subarray(0, 8), isBigEndian)
  return checksum(afterHeader, frame.subarray(frameHeaderBytes), isBigEndian)
}

/** SQLite's checksum: two 32-bit sums, stored big-endian, over words in the byte order that the magic number defines. */
function checksum(seed: Buffer, bytes: Buffer, isBigEndian: boolean): Buffer {
  let first = seed.readUInt32BE(0)
  let second = seed.readUInt32BE(4)
  for (let at = 0; at < bytes.length; at += 8) {
    const words = isBigEndian
      ? ([bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)] as const)
      : ([bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)] as const)
    first = (first + words[0] + second) >>> 0
    second = (second + words[1] + first) >>> 0
  }
  const sums = Buffer.alloc(8)
  sums.writeUInt32BE(first, 0)
  sums.writeUInt32BE(second, 4)
  return sums
}

/** `knownSeq` is the newest seq known anywhere. */
export function isWalUsable(dir: string, name: SegmentName, knownSeq: number): boolean {
  const file = `${segmentFile(dir, name)}-wal`
  if (fileBytes(file) === 0) return true
  const segment = openReadable(segmentFile(dir, name))
  const wal = openReadable(file)
  const { commitsBehindDamage } = readWalOverlay(wal, pageBytesOf(segment, wal))
  closeReadable(wal)
  closeReadable(segment)
  if (commitsBehindDamage !== 1) return commitsBehindDamage === 0
  // Damage, or a torn transaction that was never acknowledged.
  const lastSeq = readContentIfUsable(dir, name, null)?.lastSeq ?? 0
  return lastSeq >= knownSeq
}
