/**
 * The disk guard: how much room there is, and the ballast.
 *
 * The ballast is disk space held back in a file. When the disk is really full the file is deleted, so that lane
 * cursors and checkpoints, which need a little space too, still move. Messages are only taken while the ballast is
 * in place: else they would eat the space that was given up for others. It is made again as soon as there is room
 * for three of it, so that making it does not fill the disk.
 */
import { randomFillSync } from 'node:crypto'
import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { fileBytes } from './layout.ts'
import { isDiskFull } from './sqlite-errors.ts'

const MiB = 1024 * 1024
const largestBallastBytes = 16 * MiB

export interface DiskGuard {
  /** Space that an unprivileged process may still use. */
  freeBytes(): number
  /** Makes or gives up the ballast as the free space demands. Answers the bytes that lack for it: 0 when in place. */
  keepBallast(freeBytes: number): number
  /** The disk is full. */
  releaseBallast(): void
}

export function openDiskGuard(dir: string, ballastFile: string): DiskGuard {
  const { blocks, bsize } = statfsSync(dir)
  // A small disk (a RAM disk, a test) gets a small one.
  const ballastBytes = Math.min(largestBallastBytes, Math.floor((blocks * bsize) / 64))
  let isInPlace = fileBytes(ballastFile) === ballastBytes

  function releaseBallast(): void {
    rmSync(ballastFile, { force: true })
    isInPlace = false
  }

  return {
    freeBytes() {
      const { bavail, bsize: blockBytes } = statfsSync(dir)
      return bavail * blockBytes
    },
    keepBallast(freeBytes) {
      if (isInPlace && freeBytes < ballastBytes / 2) releaseBallast()
      else if (!isInPlace && freeBytes >= 3 * ballastBytes)
        isInPlace = writeBallast(ballastFile, ballastBytes)
      return isInPlace ? 0 : Math.max(1, 3 * ballastBytes - freeBytes)
    },
    releaseBallast,
  }
}

/** Random bytes: a file system that compresses would make nothing of zeros. */
function writeBallast(file: string, bytes: number): boolean {
  const chunk = randomFillSync(Buffer.allocUnsafe(Math.min(bytes, MiB)))
  const fd = openSync(file, 'w', 0o600)
  try {
    for (let left = bytes; left > 0; ) left -= writeSync(fd, chunk, 0, Math.min(left, chunk.length))
    return true
  } catch (error) {
    if (!isDiskFull(error)) throw error
    rmSync(file, { force: true })
    return false
  } finally {
    closeSync(fd)
  }
}
