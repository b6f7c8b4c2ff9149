/**
 * Converts errors of SQLite and of the file system to a DeliveryError. The code is that of SQLite, such as
 * SQLITE_CONSTRAINT_NOTNULL.
 *
 *   transient           can succeed later: the file is locked, a limit is reached, the disk is full or fails
 *   whole destination   permanent and the same for every message: the file is damaged or cannot be written
 *   a record's fault    a constraint of the table; errors of triggers and functions only if other records are accepted
 */
import Database from 'better-sqlite3'
import { errorCode, isNoSpace } from '../../platform/error-code.ts'
import { DeliveryError } from '../driver.ts'
import { NotATableFileError } from './files.ts'

/** The fault of an error that a row's insert raised. `unclear`: the row's, if the table accepts other rows. */
export function rowFaultOf(error: unknown): 'record' | 'unclear' | 'destination' {
  const code = sqliteCode(error)
  if (code === null) return 'destination'
  if (code === 'SQLITE_CONSTRAINT_TRIGGER' || code === 'SQLITE_ERROR') return 'unclear'
  return /^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH)/.test(code) ? 'record' : 'destination'
}

/** After these, what the connection has in memory cannot be trusted. */
export function endsConnection(error: unknown): boolean {
  return /^SQLITE_(IOERR|CORRUPT|NOTADB|NOMEM|READONLY|CANTOPEN|PROTOCOL)/.test(sqliteCode(error) ?? '')
}

export function isIoError(error: unknown): boolean {
  return !isNoSpace(error) && /^SQLITE_IOERR/.test(sqliteCode(error) ?? '')
}

export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error) ?? '')
}

export function sqliteCode(error: unknown): string | null {
  return error instanceof Database.SqliteError ? error.code : null
}

/** `file`: its name, for the message. */
export function sqliteError(error: unknown, file: string): DeliveryError {
  if (error instanceof DeliveryError) return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof NotATableFileError) return new DeliveryError('permanent', 'not_a_file', `${message}.`)
  const code = sqliteCode(error) ?? errorCode(error) ?? 'sqlite_failed'
  const known = sentences.find(([pattern]) => pattern.test(code))
  const [, errorClass, advice] = known ?? [null, isSystemCode(code) ? 'permanent' : 'transient', '']
  const fault = rowFaultOf(error) === 'record' ? 'records' : undefined
  const text = `${file}: ${message}.${advice === '' ? '' : ` ${advice}`}`
  return new DeliveryError(errorClass, code, text, {
    ...(errorClass === 'permanent' && fault !== undefined ? { fault } : {}),
    cause: error,
  })
}

function isSystemCode(code: string): boolean {
  return /^E(ACCES|PERM|ROFS|ISDIR|NOTDIR|LOOP)$/.test(code)
}

type Sentence = [pattern: RegExp, errorClass: 'transient' | 'permanent', advice: string]

const sentences: readonly Sentence[] = [
  [
    /^SQLITE_(BUSY|LOCKED)/,
    'transient',
    'Another program holds a write transaction on the file: it must end it.',
  ],
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)/, 'transient', 'The disk is full: free some space.'],
  [/^SQLITE_IOERR_SHM/, 'transient', 'The disk is full: free some space.'],
  [/^SQLITE_IOERR/, 'transient', 'The disk could not be read or written: check it.'],
  [/^SQLITE_READONLY_DBMOVED/, 'transient', 'The file was moved or replaced while it was open.'],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    'permanent',
    'The file is damaged: restore it from a backup, or move it away together with its -wal and -shm files.',
  ],
  [
    /^SQLITE_(READONLY|PERM|AUTH|CANTOPEN)/,
    'permanent',
    'The user of the daemon must be able to write the file and its directory.',
  ],
  [/^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|ERROR|RANGE)/, 'permanent', ''],
]
