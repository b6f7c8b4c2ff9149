/**
 * Converts errors of a MySQL-family server, or of the network, to a DeliveryError. The code is the server's own error name.
 *
 *   transient           can succeed later: a lock, the server down or full, too many connections
 *   whole destination   permanent and the same for every message: the first one is named, so no search is needed
 *   a record's fault    permanent and caused by a row's content; also an unknown error, if other records are accepted
 */
import { DeliveryError } from '../driver.ts'
import { networkError } from '../network-error.ts'

export interface ServerError {
  errno: number
  code: string
  message: string
}

/** The server's error, or null for an error of the network, the client library or pipectl. */
export function serverErrorOf(error: unknown): ServerError | null {
  if (!(error instanceof Error) || error instanceof DeliveryError) return null
  if (!('errno' in error) || typeof error.errno !== 'number' || error.errno <= 0) return null
  if (!('sqlMessage' in error) && !('sqlState' in error)) return null
  const code = 'code' in error && typeof error.code === 'string' ? error.code : `errno_${error.errno}`
  return { errno: error.errno, code: mariadbNames[error.errno] ?? code, message: error.message }
}

/** True if other records might be accepted: the search for the failing one is worthwhile. */
export function isRecordFault(error: unknown): boolean {
  const server = serverErrorOf(error)
  return server !== null && !transient.has(server.errno) && !wholeDestination.has(server.errno)
}

/** `firstSeq` is the batch's first message, which an error of the whole destination names. */
export function mysqlError(error: unknown, firstSeq: number): DeliveryError {
  const server = serverErrorOf(error)
  if (server !== null) return statementError(server, firstSeq, error)
  if (error instanceof DeliveryError) return wholeIfUnknown(error, firstSeq)
  const advice = error instanceof Error && 'code' in error ? handshake[String(error.code)] : undefined
  if (advice === undefined) return networkError(error, 'The database server')
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'handshake'
  return new DeliveryError('permanent', code, advice, { failedSeq: firstSeq, cause: error })
}

function statementError(
  { errno, code, message }: ServerError,
  firstSeq: number,
  cause: unknown,
): DeliveryError {
  if (transient.has(errno)) {
    const timedOut = statementTimeouts.has(errno) ? 'rolled_back' : undefined
    return new DeliveryError('transient', code, sentence(message), { timedOut, cause })
  }
  const advice = wholeDestination.get(errno)
  if (advice === undefined) {
    const fault = ofRecords.has(errno) ? 'records' : 'destination'
    return new DeliveryError('permanent', code, sentence(message), { fault, cause })
  }
  return new DeliveryError('permanent', code, `${sentence(message)} ${advice}`, {
    failedSeq: firstSeq,
    cause,
  })
}

/** pipectl's own rejections (no table, no column, no unique key, egress) affect every message. */
function wholeIfUnknown(error: DeliveryError, firstSeq: number): DeliveryError {
  if (error.class === 'transient' || error.failedSeq !== undefined) return error
  return error.with({ failedSeq: firstSeq })
}

function sentence(message: string): string {
  return /[.!?]$/.test(message) ? message : `${message}.`
}

/** mysql2 knows only MySQL's names; from 1900 on MariaDB uses the same numbers for other errors. */
const mariadbNames: Record<number, string> = {
  1927: 'ER_CONNECTION_KILLED',
  1969: 'ER_STATEMENT_TIMEOUT',
  4025: 'ER_CONSTRAINT_FAILED',
}

const transient: ReadonlySet<number> = new Set([
  1015, // ER_CANT_LOCK
  1021, // ER_DISK_FULL
  1030, // ER_GET_ERRNO: the storage engine reports an I/O error
  1037, // ER_OUTOFMEMORY
  1038, // ER_OUT_OF_SORTMEMORY
  1040, // ER_CON_COUNT_ERROR: too many connections
  1041, // ER_OUT_OF_RESOURCES
  1042, // ER_BAD_HOST_ERROR
  1043, // ER_HANDSHAKE_ERROR
  1047, // ER_UNKNOWN_COM_ERROR: a Galera node that is not ready sends it
  1053, // ER_SERVER_SHUTDOWN
  1077, // ER_NORMAL_SHUTDOWN
  1079, // ER_SHUTDOWN_COMPLETE
  1080, // ER_FORCING_CLOSE
  1114, // ER_RECORD_FILE_FULL: no space for the table
  1129, // ER_HOST_IS_BLOCKED
  1152, // ER_ABORTING_CONNECTION
  1156, // ER_NET_PACKETS_OUT_OF_ORDER
  1158, // ER_NET_READ_ERROR
  1159, // ER_NET_READ_INTERRUPTED
  1160, // ER_NET_ERROR_ON_WRITE
  1161, // ER_NET_WRITE_INTERRUPTED
  1180, // ER_ERROR_DURING_COMMIT
  1184, // ER_NEW_ABORTING_CONNECTION
  1203, // ER_TOO_MANY_USER_CONNECTIONS
  1205, // ER_LOCK_WAIT_TIMEOUT
  1213, // ER_LOCK_DEADLOCK
  1226, // ER_USER_LIMIT_REACHED
  1290, // ER_OPTION_PREVENTS_STATEMENT: read-only, as during a fail-over
  1317, // ER_QUERY_INTERRUPTED
  1412, // ER_TABLE_DEF_CHANGED
  1461, // ER_MAX_PREPARED_STMT_COUNT_REACHED
  1615, // ER_NEED_REPREPARE
  1637, // ER_TOO_MANY_CONCURRENT_TRXS
  1792, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
  1836, // ER_READ_ONLY_MODE
  1927, // MariaDB: connection killed
  1969, // MariaDB: max_statement_time
  3024, // MySQL: max_execution_time
])

/** The statement is rolled back: nothing is stored, and fewer rows might finish in time. */
const statementTimeouts: ReadonlySet<number> = new Set([1969, 3024])

const wholeDestination: ReadonlyMap<number, string> = new Map([
  [1044, 'Grant this user the right to the database.'],
  [1045, 'Check username and password, and the hosts from which the user can connect.'],
  [1049, 'Create the database or correct its name.'],
  [1054, 'Add the column to the table or change the column mappings.'],
  [1109, 'Create the table or correct its name.'],
  [1130, 'Allow the user to connect from this host.'],
  [1142, 'Grant this user INSERT on the table, and UPDATE if a column has the role dedupe_id.'],
  [1143, 'Grant this user INSERT on the column, and UPDATE if a column has the role dedupe_id.'],
  [1146, 'Create the table or correct its name.'],
  [1251, 'Change the authentication plugin of the user.'],
  [1370, 'Grant this user the missing right.'],
  [1449, 'The definer of the trigger or view no longer exists.'],
  [1471, 'The target is a view that accepts no rows: set table to a table.'],
  [1698, 'Check username and password: this user cannot log in with a password.'],
  [1820, 'The password of this user has expired: set a new one.'],
  [1862, 'The password of this user has expired: set a new one.'],
  [3118, 'The account is locked: unlock it.'],
  [3159, 'The server accepts only encrypted connections.'],
  [4151, 'The account is locked: unlock it.'],
])

/** Errors caused by a row's content: without the row, the others are accepted. */
const ofRecords: ReadonlySet<number> = new Set([
  1048, // ER_BAD_NULL_ERROR
  1062, // ER_DUP_ENTRY
  1118, // ER_TOO_BIG_ROWSIZE
  1153, // ER_NET_PACKET_TOO_LARGE
  1169, // ER_DUP_UNIQUE
  1216, // ER_NO_REFERENCED_ROW
  1242, // ER_SUBQUERY_NO_1_ROW: our guard of other unique keys
  1263, // ER_WARN_NULL_TO_NOTNULL
  1264, // ER_WARN_DATA_OUT_OF_RANGE
  1265, // WARN_DATA_TRUNCATED
  1292, // ER_TRUNCATED_WRONG_VALUE
  1300, // ER_INVALID_CHARACTER_STRING
  1364, // ER_NO_DEFAULT_FOR_FIELD
  1365, // ER_DIVISION_BY_ZERO
  1366, // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
  1367, // ER_ILLEGAL_VALUE_FOR_TYPE
  1369, // ER_VIEW_CHECK_FAILED
  1406, // ER_DATA_TOO_LONG
  1411, // ER_WRONG_VALUE_FOR_TYPE
  1416, // ER_CANT_CREATE_GEOMETRY_OBJECT
  1441, // ER_DATETIME_FUNCTION_OVERFLOW
  1452, // ER_NO_REFERENCED_ROW_2
  1526, // ER_NO_PARTITION_FOR_GIVEN_VALUE
  1557, // ER_FOREIGN_DUPLICATE_KEY
  1586, // ER_DUP_ENTRY_WITH_KEY_NAME
  1591, // ER_NO_PARTITION_FOR_GIVEN_VALUE_SILENT
  1644, // ER_SIGNAL_EXCEPTION: a trigger rejects the row
  1690, // ER_DATA_OUT_OF_RANGE
  1748, // ER_ROW_DOES_NOT_MATCH_GIVEN_PARTITION_SET
  1916, // MariaDB: ER_DATA_OVERFLOW
  1918, // MariaDB: ER_BAD_DATA
  3037, // ER_GIS_INVALID_DATA
  3140, // ER_INVALID_JSON_TEXT
  3141, // ER_INVALID_JSON_TEXT_IN_PARAM
  3144, // ER_INVALID_JSON_CHARSET
  3156, // ER_INVALID_JSON_VALUE_FOR_CAST
  3157, // ER_JSON_DOCUMENT_TOO_DEEP
  3616, // ER_LONGITUDE_OUT_OF_RANGE
  3617, // ER_LATITUDE_OUT_OF_RANGE
  3819, // ER_CHECK_CONSTRAINT_VIOLATED
  4025, // MariaDB: ER_CONSTRAINT_FAILED
])

/** Errors of the client library before authentication is complete. */
const handshake: Record<string, string> = {
  HANDSHAKE_NO_SSL_SUPPORT:
    'The database server offers no TLS, which is required for every host except localhost and 127.0.0.1: enable it on the server.',
  AUTH_SWITCH_PLUGIN_ERROR:
    'The database server asks for an authentication plugin that is not supported: use mysql_native_password or caching_sha2_password.',
}
