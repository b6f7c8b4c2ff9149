/**
 * Maps errors of PostgreSQL and of its connection to this program's errors:
 *
 *   conflict      WriteConflictError: the transaction is repeated
 *   unavailable   StorageUnavailableError: nothing was done and it can be repeated (the server restarts, is full, is a standby)
 *   at the start  ConfigError: the operator has to fix something (`openingError`)
 *   any other     unchanged: a bug of ours
 */
import { WriteConflictError } from '../../metadata/transactions.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { errorCode, StorageUnavailableError } from '../../platform/error-code.ts'

/**
 * Serialization failure and deadlock. Unique and foreign key violations: no statement causes one by itself, so another
 * transaction added the key or removed the parent meanwhile. A table that another node has just created.
 */
const conflicts = new Set(['40001', '40P01', '23505', '23503', '42P07'])

/**
 * Connection, resources, operator and system. Authentication and permissions too, which can be corrected while the
 * service runs.
 */
const unavailableClasses = new Set(['08', '28', '53', '57', '58'])
/** Missing database, lock not available, read-only server, idle in a transaction for too long, missing permission. */
const unavailable = new Set(['3D000', '55P03', '25006', '25P03', '42501'])

/** The session is unusable after these errors. It is closed, and the next one can reach another server. */
export function endsSession(error: unknown): boolean {
  const code = sqlState(error)
  return code === null || /^(08|57P|58|25P03|25006|28|3D)/.test(code)
}

/** `error` is from the pg client. */
export function storageError(error: unknown, label: string): unknown {
  const code = sqlState(error)
  if (code !== null && conflicts.has(code)) return new WriteConflictError(error)
  if (code !== null && !unavailableClasses.has(code.slice(0, 2)) && !unavailable.has(code)) return error
  if (code === null && !isOfConnection(error)) return error
  return unavailableError(error, label)
}

export function unavailableError(error: unknown, label: string): StorageUnavailableError {
  return new StorageUnavailableError(`metadata: ${label}: ${inWords(error)}`, error)
}

/** Converts the error that ended the opening of the database into a ConfigError when waiting does not help. */
export function openingError(error: unknown, label: string): unknown {
  if (!(error instanceof StorageUnavailableError)) return error
  const advice = openingAdvice(error.cause)
  return advice === null ? error : new ConfigError(`metadata: ${label}: ${advice}`, error.cause)
}

function openingAdvice(error: unknown): string | null {
  const code = sqlState(error) ?? errorCode(error)
  const said = inWords(error)
  if (code === '3D000') return `${said}: create it (createdb), or correct metadata.url`
  if (code === '42501')
    return `${said}: the user must own the tables, or have the right to create them in the schema`
  if (code === '25006') return `${said}: the server is a standby: set the primary in metadata.url`
  if (code === 'ENOTFOUND') return `${said}: correct the host in metadata.url`
  if (code?.startsWith('28') || /^SASL/.test(messageOf(error))) {
    return `${said}: check user and password in metadata.url, and pg_hba.conf of the server`
  }
  if (/does not support SSL/.test(messageOf(error))) {
    return 'the server offers no TLS: enable ssl on it, or add ?sslmode=disable to metadata.url if the network is trusted'
  }
  if (code !== null && /CERT|^ERR_TLS|^ERR_SSL|SELF_SIGNED|UNABLE_TO/.test(code)) {
    return `${said}: check sslmode and sslrootcert in metadata.url`
  }
  return null
}

/** The SQLSTATE of the server's ErrorResponse; null for other errors. */
export function sqlState(error: unknown): string | null {
  const code = errorCode(error)
  if (code === null || !(error instanceof Error) || !('severity' in error)) return null
  return /^[0-9A-Z]{5}$/.test(code) ? code : null
}

/** The client's own errors have no code: the connection ended, no response in time, or an unreadable response. */
function isOfConnection(error: unknown): boolean {
  const code = errorCode(error)
  return code === null
    ? error instanceof Error && !(error instanceof TypeError)
    : /^(E|UNABLE|SELF|DEPTH|CERT)/.test(code)
}

/** Never includes `detail`, which contains the row. */
function inWords(error: unknown): string {
  const text = messageOf(error).replaceAll(/\s+/g, ' ').slice(0, 300)
  const code = sqlState(error)
  return code === null ? text : `${text} (SQLSTATE ${code})`
}

function messageOf(error: unknown): string {
  // For a name with several addresses, none of which responds.
  if (error instanceof AggregateError && error.message === '') return messageOf(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}
