/**
 * The high-water mark: the newest acknowledged seq, kept outside SQLite, so that start-up can tell when acknowledged
 * messages are missing (a WAL cut short by a disk that lied about fsync, or a file deleted by hand).
 * It is written after COMMIT and before the response: acknowledged ≤ mark ≤ committed.
 *
 * It also keeps the buffer's clock: milliseconds that the buffer has been open, over all its runs. Ages in retention
 * and sealing are differences of this clock, never of the wall clock: a wall clock that jumps ten years drops nothing.
 * The file also records which seqs retention has dropped from the old end: seqs below `oldest kept` are not missing.
 *
 *   0   8 bytes "pipehwm2"     24  f64 oldest kept seq    40  data directory's id, 36 ASCII characters or zeros
 *   8   f64 seq                32  f64 epoch              76  u32 CRC-32 of the 76 bytes before it
 *   16  f64 clock, ms
 *
 * The block is in one sector and never grows, so that writing it needs no disk space and a power cut leaves the old one
 * or the new one. It is fsynced at the start, with each roll and drop and on close: after a power cut it can be older
 * than the log, which can hide a loss but never invents one. A damaged file is rebuilt from the log.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeSync,
} from 'node:fs'
import { performance } from 'node:perf_hooks'
import { crc32 } from 'node:zlib'
import type { BufferIdentity } from '../buffer.ts'
import { setAsideUnreadable } from './layout.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

const magic = 'pipehwm2'
const markBytes = 80
const checkedBytes = 76
const idAt = 40

export interface Mark {
  seq: number
  clockMs: number
  /** Retention has dropped everything below this seq. 0: the file has no such record. */
  oldestKeptSeq: number
  /** Null when the file does not state it. */
  identity: BufferIdentity | null
}

/** Why the mark cannot be used. */
export type MarkLoss = 'missing' | 'damaged' | 'unreadable' | 'not_a_file' | 'of_another_data_directory'

const emptyMark: Mark = { seq: 0, clockMs: 0, oldestKeptSeq: 0, identity: null }

/** Reads the content of the file without changing anything. */
export function readHighWater(file: string): Mark | MarkLoss {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) return 'missing'
  if (!found.isFile()) return 'not_a_file'
  try {
    return decodeMark(readFileSync(file)) ?? 'damaged'
  } catch (error) {
    if (!isDamage(error)) throw error
    return 'unreadable'
  }
}

/**
 * Writes nothing before `write`. A file that cannot be read, or that is not a regular file, is renamed first: writing
 * less than a page makes the system read the page.
 */
export function openHighWater(file: string, identity: BufferIdentity | null): HighWater {
  const read = readHighWater(file)
  if (read === 'not_a_file' || read === 'unreadable') setAsideUnreadable(file)
  if (typeof read === 'string') return new HighWater(file, identity, emptyMark, read)
  const owner = read.identity?.dataDirId
  const isForeign = owner !== undefined && identity !== null && owner !== identity.dataDirId
  if (isForeign) return new HighWater(file, identity, emptyMark, 'of_another_data_directory')
  return new HighWater(file, identity, read, null)
}

export class HighWater {
  /** The mark as it was when the file was opened; zeros when it was lost. */
  readonly found: Mark
  readonly loss: MarkLoss | null
  readonly #file: string
  readonly #block = Buffer.alloc(markBytes)
  #oldestKeptSeq: number
  #seq: number
  #clockMs: number
  /** Null while a full disk has no room for the file. */
  #fd: number | null = null

  constructor(file: string, identity: BufferIdentity | null, found: Mark, loss: MarkLoss | null) {
    this.#file = file
    this.found = found
    this.loss = loss
    this.#seq = found.seq
    this.#clockMs = found.clockMs
    this.#oldestKeptSeq = found.oldestKeptSeq
    this.#block.write(magic, 0, 'latin1')
    this.#block.writeDoubleLE(identity?.epoch ?? 1, 32)
    this.#block.write(identity?.dataDirId ?? '', idAt, 36, 'latin1')
  }

  get oldestKeptSeq(): number {
    return this.#oldestKeptSeq
  }

  write(seq: number, clockMs: number): void {
    this.#seq = seq
    this.#clockMs = clockMs
    this.#write()
  }

  /** Records that everything below this seq is dropped. Durable before the segments are removed. */
  raiseOldestKept(seq: number): void {
    this.#oldestKeptSeq = Math.max(this.#oldestKeptSeq, seq)
    this.#write()
    this.sync()
  }

  sync(): void {
    this.#unlessFull(() => {
      if (this.#fd !== null) fsyncSync(this.#fd)
    })
  }

  /** Keeps the content of the last write. */
  close(): void {
    this.sync()
    if (this.#fd !== null) closeSync(this.#fd)
    this.#fd = null
  }

  /** After a failure: closes the file and throws nothing. */
  abandon(): void {
    const fd = this.#fd
    this.#fd = null
    try {
      if (fd !== null) closeSync(fd)
    } catch {
      // The content is not relied on.
    }
  }

  #write(): void {
    const block = this.#block
    block.writeDoubleLE(this.#seq, 8)
    block.writeDoubleLE(this.#clockMs, 16)
    block.writeDoubleLE(this.#oldestKeptSeq, 24)
    block.writeUInt32LE(crc32(block.subarray(0, checkedBytes)), checkedBytes)
    this.#unlessFull(() => {
      this.#fd ??= openWhole(this.#file)
      writeSync(this.#fd, block, 0, markBytes, 0)
    })
  }

  /**
   * Writes in place and does not grow the file. It fails for lack of space only when creating the file, or on a
   * copy-on-write file system.
   */
  #unlessFull(action: () => void): void {
    try {
      action()
    } catch (error) {
      if (!isDiskFull(error)) throw error
    }
  }
}

/** Extends the file to its full length before writing: a full disk must not leave half a block. */
function openWhole(file: string): number {
  // Numeric flags: `r+` would require the file to exist, and `a+` ignores positions.
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    if (fstatSync(fd).size !== markBytes) ftruncateSync(fd, markBytes)
    return fd
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** Null when it is damaged. */
export function decodeMark(block: Buffer): Mark | null {
  if (block.length < markBytes || block.toString('latin1', 0, 8) !== magic) return null
  if (crc32(block.subarray(0, checkedBytes)) !== block.readUInt32LE(checkedBytes)) return null
  const dataDirId = block.toString('latin1', idAt, idAt + 36)
  const isOwned = !dataDirId.includes('\0')
  return {
    seq: block.readDoubleLE(8),
    clockMs: block.readDoubleLE(16),
    oldestKeptSeq: block.readDoubleLE(24),
    identity: isOwned ? { dataDirId, epoch: block.readDoubleLE(32) } : null,
  }
}

/**
 * The buffer's clock continues at the last run's value and advances with the monotonic clock, so that the wall clock
 * cannot make a message old. Returns whole milliseconds that never decrease.
 */
export function startClock(startMs: number): () => number {
  const startedAt = performance.now()
  return () => Math.floor(startMs + performance.now() - startedAt)
}
