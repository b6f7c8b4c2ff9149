/**
 * A file read by offset on a disk that may fail: what cannot be read (a bad sector gives EIO) is null, never an error.
 * Nothing is read, and no memory taken, beyond the file's size when it was opened. A file that is missing can be read as
 * an empty one.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { errorCode } from '../../platform/error-code.ts'

export interface ReadableFile {
  /** Null: there is no file. */
  fd: number | null
  bytes: number
}

/** Throws what the file system throws (ENOENT, EACCES). */
export function openReadable(file: string): ReadableFile {
  const fd = openSync(file, constants.O_RDONLY)
  return { fd, bytes: fstatSync(fd).size }
}

/** As `openReadable`, but a file that is missing is an empty one. */
export function openReadableIfThere(file: string): ReadableFile {
  try {
    return openReadable(file)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    return { fd: null, bytes: 0 }
  }
}

export function closeReadable({ fd }: ReadableFile): void {
  if (fd !== null) closeSync(fd)
}

/** Null when any of it cannot be read or lies behind the end. */
export function readAt(file: ReadableFile, offset: number, length: number): Buffer | null {
  if (offset + length > file.bytes) return null
  const into = Buffer.allocUnsafe(length)
  return readInto(file, offset, into) === length ? into : null
}

/** How many bytes were read; 0 when the disk could not. */
export function readInto({ fd }: ReadableFile, offset: number, into: Buffer): number {
  if (fd === null) return 0
  try {
    return readSync(fd, into, 0, into.length, offset)
  } catch (error) {
    // A closed descriptor and the like are mistakes of ours; everything else the device could not do.
    if (errorCode(error) === 'EBADF' || !(error instanceof Error) || !('syscall' in error)) throw error
    return 0
  }
}
