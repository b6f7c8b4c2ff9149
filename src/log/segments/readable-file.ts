/**
 * Reads a file by offset on a disk that can fail: an unreadable part (a bad sector gives EIO) is null, never an error.
 * Reads and allocations never exceed the file's size at the time of opening. A missing file can be treated as empty.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { errorCode } from '../../platform/error-code.ts'

export interface ReadableFile {
  /** Null when the file does not exist. */
  fd: number | null
  bytes: number
}

/** Throws errors of the file system (ENOENT, EACCES). */
export function openReadable(file: string): ReadableFile {
  const fd = openSync(file, constants.O_RDONLY)
  return { fd, bytes: fstatSync(fd).size }
}

/** Like `openReadable`, but a missing file counts as empty. */
export function openReadableOrEmpty(file: string): ReadableFile {
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

/** Null when any part of the range cannot be read or is beyond the end. */
export function readAt(file: ReadableFile, offset: number, length: number): Buffer | null {
  if (offset + length > file.bytes) return null
  const into = Buffer.allocUnsafe(length)
  return readInto(file, offset, into) === length ? into : null
}

/** Returns the number of bytes read; 0 when the disk could not read them. */
export function readInto({ fd }: ReadableFile, offset: number, into: Buffer): number {
  if (fd === null) return 0
  try {
    return readSync(fd, into, 0, into.length, offset)
  } catch (error) {
    // A closed descriptor and similar errors are bugs of ours; anything else is a failure of the device.
    if (errorCode(error) === 'EBADF' || !(error instanceof Error) || !('syscall' in error)) throw error
    return 0
  }
}
