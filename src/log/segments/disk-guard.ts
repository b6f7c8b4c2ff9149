/**
 * Measures free disk space and manages the ballast.
 *
 * The ballast is a file that reserves disk space. When the disk is full the file is deleted, so that lane cursors and
 * checkpoints, which need a little space, can still be saved. Messages are accepted only while the ballast is in place;
 * otherwise they would use the space that was released for the rest. The ballast is created again when there is room
 * for three of it, so that creating it does not fill the disk.
 *
 *   start   released before anything is opened when the disk is full, because opening needs a little space too
 *   stop    when not in place, the remaining space becomes ballast, so that it is available at the next start
 */
import { randomFillSync } from 'node:crypto'
import { closeSync, existsSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import path from 'node:path'
import { fileBytes } from './layout.ts'
import { isDiskFull } from './sqlite-errors.ts'

const MiB = 1024 * 1024
const largestBallastBytes = 16 * MiB

export interface DiskGuard {
  /** Space that an unprivileged process can still use. */
  freeBytes(): number
  /** Creates or releases the ballast according to the free space. Returns the bytes it lacks; 0 when it is complete. */
  keepBallast(freeBytes: number): number
  /** Releases the ballast because the disk is full. */
  releaseBallast(): void
}

/** `dir` is the buffer's directory. */
export function openDiskGuard(dir: string): DiskGuard {
  const file = ballastFile(dir)
  const wholeBytes = wholeBallastBytes(dir)
  return {
    freeBytes: () => freeBytesOf(dir),
    keepBallast(freeBytes) {
      // Read each time: a second daemon that failed to start can have released the ballast.
      const heldBytes = fileBytes(file)
      let isInPlace = heldBytes === wholeBytes
      if (heldBytes > 0 && freeBytes < wholeBytes / 2) {
        rmSync(file, { force: true })
        isInPlace = false
      } else if (!isInPlace && freeBytes >= 3 * wholeBytes) {
        isInPlace = writeBallast(file, wholeBytes) === wholeBytes
        if (!isInPlace) rmSync(file, { force: true })
      }
      return isInPlace ? 0 : Math.max(1, 3 * wholeBytes - freeBytes)
    },
    releaseBallast: () => rmSync(file, { force: true }),
  }
}

/** Called before anything of the data directory is opened. `dir` need not exist. */
export function releaseBallastWhenFull(dir: string): void {
  if (existsSync(dir) && freeBytesOf(dir) < wholeBallastBytes(dir) / 2) {
    rmSync(ballastFile(dir), { force: true })
  }
}

/** Called when everything is closed: reserves the remaining released space for the next start. */
export function leaveBallast(dir: string): void {
  const wholeBytes = wholeBallastBytes(dir)
  if (fileBytes(ballastFile(dir)) < wholeBytes) writeBallast(ballastFile(dir), wholeBytes)
}

function ballastFile(dir: string): string {
  return path.join(dir, 'ballast')
}

/** A small disk (a RAM disk or a test) gets a small ballast. */
function wholeBallastBytes(dir: string): number {
  const { blocks, bsize } = statfsSync(dir)
  return Math.min(largestBallastBytes, Math.floor((blocks * bsize) / 64))
}

function freeBytesOf(dir: string): number {
  const { bavail, bsize } = statfsSync(dir)
  return bavail * bsize
}

/**
 * Returns the number of bytes written. The bytes are random because a compressing file system would store zeros in no
 * space.
 */
function writeBallast(file: string, bytes: number): number {
  const chunk = randomFillSync(Buffer.allocUnsafe(Math.min(bytes, MiB)))
  let written = 0
  let fd: number | null = null
  try {
    fd = openSync(file, 'w', 0o600)
    while (written < bytes) written += writeSync(fd, chunk, 0, Math.min(bytes - written, chunk.length))
  } catch (error) {
    if (!isDiskFull(error)) throw error
  } finally {
    if (fd !== null) closeSync(fd)
  }
  return written
}
