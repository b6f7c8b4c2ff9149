/**
 * Which failures the writer survives. A full disk is one: SQLite rolls the transaction back and says so. Everything
 * else from SQLite or the file system is not: after a failed write or fsync nothing the process believes about its
 * files can be trusted, so the error is left to end the process.
 */
import { errorCode, isNoSpace } from '../../platform/error-code.ts'
import { isCorrupt, isReadFailure } from '../../platform/storage-error.ts'

export function isDiskFull(error: unknown): boolean {
  return isNoSpace(error)
}

/** Another connection has it open. */
export function isBusy(error: unknown): boolean {
  return errorCode(error)?.startsWith('SQLITE_BUSY') ?? false
}

/**
 * Something in the file cannot be read: its structure is broken, or the disk says so. What else of it can be read is
 * salvaged. A failed write or fsync is not one of these.
 */
export function isDamage(error: unknown): boolean {
  return isCorrupt(error) || isReadFailure(error)
}

/** A segment's file cannot be used for a reason that lies in it, not around it: it has not even its tables. */
export function isUnusable(error: unknown): boolean {
  return isDamage(error) || errorCode(error) === 'SQLITE_ERROR' || error instanceof UnknownFormatError
}

/** Damage that SQLite has not noticed: rows and indexes of a segment contradict each other. */
export class ContradictionError extends Error {
  readonly code = 'SQLITE_CORRUPT'
}

/** A segment does not say what it is, or has a format that this version does not know. */
export class UnknownFormatError extends Error {}

/** The file went away between listing and opening it. */
export function isGone(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'SQLITE_CANTOPEN' || code === 'ENOENT'
}
