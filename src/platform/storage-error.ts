/**
 * A failed read or write of a file, worded for the operator: the operation, the file, the error of the system or of
 * SQLite, and what to do.
 *
 * Node.js does not treat an SqliteError as an Error: thrown in a worker thread, it arrives on the main thread as a bare
 * `{code}`. `describeFatalErrors` therefore words every error that ends a thread before the thread ends.
 */
import { errorCode, isNoSpace } from './error-code.ts'

/** All fields are own properties, so that they survive the way between threads. */
export class StorageError extends Error {
  readonly code: string
  readonly file: string
  readonly hint: string

  constructor(operation: string, file: string, error: unknown) {
    const code = errorCode(error) ?? 'unknown error'
    const said = error instanceof Error || isWithMessage(error) ? error.message : String(error)
    super(`${operation} ${file} failed: ${said === '' ? code : `${said} (${code})`}`, { cause: error })
    this.name = 'StorageError'
    this.code = code
    this.file = file
    this.hint = hintFor(code)
  }
}

/** Runs an operation on one file. An error of the system or of SQLite becomes a StorageError with the same code. */
export function onFile<T>(operation: string, file: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (isStorageError(error) || !isOfStorage(error)) throw error
    throw new StorageError(operation, file, error)
  }
}

/** SQLite reports that the file is not a database, or that its structure is damaged. */
export function isCorrupt(error: unknown): boolean {
  const code = errorCode(error) ?? ''
  return code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT')
}

/**
 * True when the disk could not read. An unreadable sector is `SQLITE_IOERR_CORRUPTFS` from SQLite and `EIO` from
 * Node.js. Node.js uses `EIO` for failed writes and fsyncs too, which are not damage, so the system call decides.
 */
export function isReadFailure(error: unknown): boolean {
  const code = errorCode(error) ?? ''
  return readFailures.has(code) || (code === 'EIO' && systemCall(error) === 'read')
}

const readFailures = new Set([
  'SQLITE_IOERR_READ',
  'SQLITE_IOERR_SHORT_READ',
  'SQLITE_IOERR_CORRUPTFS',
  'SQLITE_IOERR_DATA',
])

function systemCall(error: unknown): unknown {
  if (!(error instanceof Error)) return undefined
  return 'syscall' in error ? error.syscall : systemCall(error.cause)
}

/** Recognizes errors from other threads as well, which have lost their class. */
export function isStorageError(error: unknown): error is StorageError {
  return error instanceof Error && error.name === 'StorageError' && 'code' in error && 'hint' in error
}

/** Returns any thrown value as a worded Error. `operation` and `file` are for errors that do not name them. */
export function inWords(error: unknown, operation: string, file: string): Error {
  // Our own error classes are worded already.
  if (error instanceof Error && error.name !== 'Error' && !isOfStorage(error)) return error
  const origin = storageCause(error)
  if (isStorageError(origin)) return origin
  if (origin !== null) return new StorageError(operation, file, origin)
  return error instanceof Error ? error : new Error(`${operation} ${file} failed: ${JSON.stringify(error)}`)
}

/** For worker threads: an uncaught error ends the thread with a worded message. */
export function describeFatalErrors(operation: string, file: string): void {
  process.on('uncaughtException', (error) => {
    throw inWords(error, operation, file)
  })
}

function storageCause(error: unknown): unknown {
  for (let cause = error; typeof cause === 'object' && cause !== null; ) {
    if (isStorageError(cause) || isOfStorage(cause)) return cause
    cause = 'cause' in cause ? cause.cause : null
  }
  return null
}

/** True for errors of SQLite and the file system; our own errors are worded already. */
function isOfStorage(error: unknown): boolean {
  return /^SQLITE_|^E(IO|ROFS|ACCES|PERM|NOSPC|DQUOT|ISDIR|NOTDIR|NOENT|MFILE|NFILE)$/.test(
    errorCode(error) ?? '',
  )
}

function isWithMessage(error: unknown): error is { message: string } {
  return (
    typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string'
  )
}

function hintFor(code: string): string {
  if (isNoSpace({ code })) return 'free disk space, then start the daemon again'
  if (isCorrupt({ code }))
    return 'the file is damaged: `pipectl verify` shows what can be read, `pipectl restore` restores a backup'
  if (/^SQLITE_IOERR|^EIO$/.test(code))
    return 'look for disk errors in the system log, then start the daemon again: it continues from the data on disk'
  if (/^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)|^E(ROFS|ACCES|PERM|ISDIR|NOTDIR|NOENT)$/.test(code))
    return 'make it a file that the user of the daemon can read and write, then start the daemon again'
  return 'start the daemon again; if it fails in the same way, run `pipectl doctor`'
}
