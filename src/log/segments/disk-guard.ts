/**
 * The disk guard: how much room there is, and the ballast.
 *
 * The ballast is disk space held back in a file. When the disk is really full the file is deleted, so that lane
 * cursors and checkpoints, which need a little space too, still move. Messages are only taken while the ballast is
 * in place: else they would eat the space that was given up for others. It is made again as soon as there is room
 * for three of it, so that making it does not fill the disk.
 *
 *   start   given up before anything is opened, where the disk is full: opening needs a little space as well
 *   stop    where it is not in place, what room there is becomes ballast: nobody else takes it before the next start
 */
import { randomFillSync } from 'node:crypto'
import { closeSync, existsSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import path from 'node:path'
import { fileBytes } from './layout.ts'
import { isDiskFull } from './sqlite-errors.ts'

const MiB = 1024 * 1024
const largestBallastBytes = 16 * MiB

export interface DiskGuard {
  /** Space that an unprivileged process may still use. */
  freeBytes(): number
  /** Makes or releases the ballast as the free space demands. Returns the bytes that it lacks: 0 when in place. */
  keepBallast(freeBytes: number): number
  /** The disk is full. */
  releaseBallast(): void
}

/** `dir`: the buffer's. */
export function openDiskGuard(dir: string): DiskGuard {
  const file = ballastFile(dir)
  const wholeBytes = wholeBallastBytes(dir)
  return {
    freeBytes: () => freeBytesOf(dir),
    keepBallast(freeBytes) {
      // Looked at each time: a daemon that is started beside this one, in vain, may have given it up.
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

/** Before anything of the data directory is opened. `dir` need not exist. */
export function giveUpBallastWhenFull(dir: string): void {
  if (existsSync(dir) && freeBytesOf(dir) < wholeBallastBytes(dir) / 2) {
    rmSync(ballastFile(dir), { force: true })
  }
}

/** When everything is closed: the space that was given up for others is held for the next start, as far as it is left. */
export function leaveBallast(dir: string): void {
  const wholeBytes = wholeBallastBytes(dir)
  if (fileBytes(ballastFile(dir)) < wholeBytes) writeBallast(ballastFile(dir), wholeBytes)
}

function ballastFile(dir: string): string {
  return path.join(dir, 'ballast')
}

/** A small disk (a RAM disk, a test) gets a small one. */
function wholeBallastBytes(dir: string): number {
  const { blocks, bsize } = statfsSync(dir)
  return Math.min(largestBallastBytes, Math.floor((blocks * bsize) / 64))
}

function freeBytesOf(dir: string): number {
  const { bavail, bsize } = statfsSync(dir)
  return bavail * bsize
}

/** Returns how much there was room for. Random bytes: a file system that compresses would make nothing of zeros. */
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
