/**
 * Reads SQLite's write-ahead log without SQLite: the position of the newest committed image of each page.
 *
 * SQLite stops at the first frame whose checksum fails, and writes over everything after it: one bad bit costs all
 * commits that follow. The checksums are a chain, though, and each frame holds its own link, so that a frame can be
 * checked by the link of the frame before it, even if that frame's page is damaged. Here a damaged frame therefore
 * costs itself and, when its link is damaged, the one after it.
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
  /** The offset in the WAL of each page's newest committed image. */
  pages: ReadonlyMap<number, number>
  /**
   * Commits after the first frame that cannot be read (SQLite would stop there). One of them may be the end of a
   * transaction that a power cut tore, which was never acknowledged; more than one tell of damage.
   */
  commitsBehindDamage: number
}

export const noOverlay: WalOverlay = { pages: new Map(), commitsBehindDamage: 0 }

interface Frame {
  pageNo: number
  offset: number
}

/** Reads a WAL that no process writes. `pageBytes`: of its file. */
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
    // With the header gone the first frame tells: the newest round of writing always begins there.
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
  /** Null while no frame of this round was seen. */
  salts: Buffer | null
  /** The checksums that the next frame continues. Null: they cannot be read. */
  link: Buffer | null
  isBigEndian: boolean
}

/**
 * The chain as the header begins it. The order of bytes in a word is in the magic. Segments are written on the machine
 * that reads them, so a damaged header leaves the machine's own order.
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

/** SQLite's: two sums of 32 bits, stored big-endian, over words whose order the magic says. */
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

/** `knownSeq`: the newest seq that anyone has seen. */
export function isWalUsable(dir: string, name: SegmentName, knownSeq: number): boolean {
  const file = `${segmentFile(dir, name)}-wal`
  if (fileBytes(file) === 0) return true
  const segment = openReadable(segmentFile(dir, name))
  const wal = openReadable(file)
  const { commitsBehindDamage } = readWalOverlay(wal, pageBytesOf(segment, wal))
  closeReadable(wal)
  closeReadable(segment)
  if (commitsBehindDamage !== 1) return commitsBehindDamage === 0
  // Damage, or a transaction that a power cut tore, which nobody has seen.
  const lastSeq = readContentIfUsable(dir, name, null)?.lastSeq ?? 0
  return lastSeq >= knownSeq
}
