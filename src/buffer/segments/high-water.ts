/**
 * The high-water mark: the newest committed seq, kept outside SQLite, so that start-up can tell when acknowledged
 * messages are missing (a WAL cut short by a disk that lied about fsync, or by a hand that deleted a file).
 * It is written after COMMIT and before the answer: acknowledged ≤ mark ≤ committed.
 *
 * It also keeps the buffer's clock: milliseconds that the buffer has been open, over all its runs. Ages in retention
 * and sealing are differences of this clock, never of the wall clock: a wall clock that jumps ten years drops nothing.
 *
 *   0  f64 seq    8  f64 clock, ms    16  u32 CRC-32 of the 16 bytes before it
 *
 * The file is 20 bytes and never grows, so writing it needs no disk space. It is fsynced on close only: after a
 * power cut it may be older than the log, which at worst hides a loss and never invents one.
 */
import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'

const markBytes = 20

export interface HighWater {
  /** As found when it was opened: 0 when there was none or it was damaged. */
  readonly seq: number
  readonly clockMs: number
  write(seq: number, clockMs: number): void
  fsync(): void
  close(): void
}

export function openHighWater(file: string): HighWater {
  // Flags by number: `r+` would need the file to exist and `a+` ignores positions.
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
  const mark = Buffer.alloc(markBytes)
  const isWhole = readSync(fd, mark, 0, markBytes, 0) === markBytes && isIntact(mark)
  const seq = isWhole ? mark.readDoubleLE(0) : 0
  const clockMs = isWhole ? mark.readDoubleLE(8) : 0
  return {
    seq,
    clockMs,
    write(newSeq, newClockMs) {
      mark.writeDoubleLE(newSeq, 0)
      mark.writeDoubleLE(newClockMs, 8)
      mark.writeUInt32LE(crc32(mark.subarray(0, 16)), 16)
      writeSync(fd, mark, 0, markBytes, 0)
    },
    fsync() {
      fsyncSync(fd)
    },
    close() {
      fsyncSync(fd)
      closeSync(fd)
    },
  }
}

function isIntact(mark: Buffer): boolean {
  return crc32(mark.subarray(0, 16)) === mark.readUInt32LE(16)
}
