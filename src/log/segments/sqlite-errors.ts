/**
 * Classifies errors by whether the writer survives them. It survives a full disk: SQLite reports it and rolls the
 * transaction back. After any other failed write or fsync, the state of the files is unknown, so the error ends the
 * process.
 */
import { errorCode, isNoSpace } from '../../platform/error-code.ts'
import { isCorrupt, isReadFailure } from '../../platform/storage-error.ts'

export function isDiskFull(error: unknown): boolean {
  return isNoSpace(error)
}

/** Another connection has the database open. */
export function isBusy(error: unknown): boolean {
  return errorCode(error)?.startsWith('SQLITE_BUSY') ?? false
}

/**
 * A part of the file cannot be read: its structure is broken, or the disk reports an error. The rest can be salvaged. A
 * failed write or fsync does not count.
 */
export function isDamage(error: unknown): boolean {
  return isCorrupt(error) || isReadFailure(error)
}

/** The file itself is unusable as a segment, for example because it lacks its tables; not an error of its surroundings. */
export function isUnusable(error: unknown): boolean {
  return isDamage(error) || errorCode(error) === 'SQLITE_ERROR' || error instanceof UnknownFormatError
}

/** Damage that SQLite does not notice: rows and indexes of a segment contradict each other. */
export class ContradictionError extends Error {
  readonly code = 'SQLITE_CORRUPT'
}

/** A segment does not state what it is, or has a format that this version does not know. */
export class UnknownFormatError extends Error {}

/** The file was removed between listing and opening it. */
export function isGone(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'SQLITE_CANTOPEN' || code === 'ENOENT'
}
