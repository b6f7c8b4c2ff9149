/** Converts PostgreSQL's errors to a DeliveryError with the server's message, the SQLSTATE, and a hint for the operator. */
import { DeliveryError, type DeliveryFault } from '../driver.ts'
import { cleanText } from '../error-text.ts'
import { networkError } from '../network-error.ts'

/** docs/dev/contract.md#retry: connection, rollback (deadlock), resources, lock not available, operator. */
const transientClasses = new Set(['08', '40', '53', '55', '57'])

/** Our own limit for a transaction whose records are being parked. */
const idleInTransaction = '25P03'

const advice: Record<string, string> = {
  '22001': 'A value is longer than its column.',
  '22003': 'A number is out of the range of its column.',
  '22P05': 'PostgreSQL cannot store the NUL character.',
  '28000': 'Check username and the server’s access rules (pg_hba.conf).',
  '28P01': 'Check username and password.',
  '3D000': 'Check database.',
  '3F000': 'Check the schema in table.',
  '42P01': 'Create the table, or correct table.',
  '42703': 'Correct the column mappings, or add the column.',
  '42P10': 'The dedupe_id column must be the primary key or have a unique constraint of its own.',
  '42501': 'Grant the user INSERT on the table, and SELECT and UPDATE too for a dedupe_id column.',
  '25006': 'This server accepts no writes: check whether it is a standby.',
}

/** These errors affect every record: there is no failing message to search for. */
const wholeDestination =
  /^(28|3D|3F|25006|42P01|42703|42P10|egress_denied|invalid_identifier|tls_unavailable|certificate_|wrong_server|unsafe_authentication|lane_|table_not_transactional)/

export function concernsWholeDestination(error: DeliveryError): boolean {
  return error.class === 'permanent' && wholeDestination.test(error.code)
}

/**
 * Data exception (22), integrity constraint (23), two rows of one upsert (21000), a view's check option (44000), a type that
 * does not fit or cannot be cast (42804, 42846), a value too large for an index (54000), RAISE or ASSERT in a trigger.
 */
const ofRecords = /^(22|23|21000$|44000$|42804$|42846$|54000$|P0001$|P0004$)/

/**
 * docs/dev/contract.md#parked-records. A failed row-level security check has the same code as a missing privilege; only its
 * routine differs.
 */
function faultOf({ code, routine }: ServerReport): DeliveryFault {
  return ofRecords.test(code) || (code === '42501' && routine === 'ExecWithCheckOptions')
    ? 'records'
    : 'destination'
}

/** Converts any error of the pg client. Never shows `detail` or context, which contain the row. */
export function postgresError(error: unknown): DeliveryError {
  if (error instanceof DeliveryError) return error
  const report = reportOf(error)
  if (report) {
    const isTransient = transientClasses.has(report.code.slice(0, 2)) || report.code === idleInTransaction
    const errorClass = isTransient ? 'transient' : 'permanent'
    // Cancelled, usually by our statement_timeout: the transaction is rolled back, nothing is stored.
    const timedOut = report.code === '57014' ? 'rolled_back' : undefined
    const fault = errorClass === 'permanent' ? faultOf(report) : undefined
    return new DeliveryError(errorClass, report.code, sentence(report), { timedOut, fault, cause: error })
  }
  const text = error instanceof Error ? error.message : ''
  if (/^SASL/.test(text)) {
    const message = 'The password exchange with the database server failed: check username and password.'
    return new DeliveryError('permanent', '28P01', message, { cause: error })
  }
  return networkError(error, 'The database server')
}

export function tlsUnavailable(): DeliveryError {
  const message =
    'The database server offers no TLS, which is required for every host except localhost and 127.0.0.1: enable ssl on the server.'
  return new DeliveryError('permanent', 'tls_unavailable', message)
}

interface ServerReport {
  code: string
  message: string
  column?: string | undefined
  constraint?: string | undefined
  table?: string | undefined
  /** The server function that reported the error. */
  routine?: string | undefined
  /** The server's activity, line by line. It contains values of the row. */
  where?: string | undefined
}

/** Returns the server's ErrorResponse, which differs from system errors by a five-character SQLSTATE and a severity. */
export function reportOf(error: unknown): ServerReport | null {
  if (!(error instanceof Error) || !('code' in error) || !('severity' in error)) return null
  const { code, column, constraint, table, routine, where } = error as ServerReport & Error
  if (!/^[0-9A-Z]{5}$/.test(code)) return null
  return { code, message: error.message, column, constraint, table, routine, where }
}

/**
 * The index of the row, from 0, at which the server rejected a COPY; null if it names none. Its language varies: `COPY t, line 3,
 * column a: "x"`, `COPY t, Zeile 3, …`. A wrong index costs a statement, because the search (`insert.ts`) only begins there.
 */
export function copiedRow({ cause }: DeliveryError): number | null {
  const line = /^COPY .*?, \S+ ([0-9]{1,9})\b/m.exec(reportOf(cause)?.where ?? '')?.[1]
  return line === undefined || Number(line) === 0 ? null : Number(line) - 1
}

function sentence({ code, message, column, constraint, table }: ServerReport): string {
  const parts = [`${cleanText(message, 500)} (SQLSTATE ${code}).`]
  if (code === '23502' && column) {
    parts.push(
      `Column ${short(column)}${table ? ` of ${short(table)}` : ''} is NOT NULL and has no default: the record lacks a value.`,
    )
  } else if (constraint && !message.includes(constraint)) parts.push(`Constraint: ${short(constraint)}.`)
  if (advice[code]) parts.push(advice[code])
  return parts.join(' ')
}

/** A genuine server sends names of at most 63 bytes. */
function short(name: string): string {
  return cleanText(name, 64)
}
