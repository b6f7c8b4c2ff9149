/**
 * Names the cause of a failing lane in a few words, and says in one sentence what the operator can do. The error of the
 * destination has the details; these words are the same for all lanes with the same cause. Pure.
 */
import type { LaneStatus } from '../../contract/destination.ts'

export interface Cause {
  /** For example `connection refused`. */
  cause: string
  /** One sentence: what to do. */
  advice: string
}

interface FailingLane {
  lane: Pick<LaneStatus, 'lane_state' | 'last_error'>
}

const blocked: Cause = {
  cause: 'blocked by a user',
  advice: 'Nothing is delivered until it is unblocked: unblock it when the destination is ready.',
}
const retries = 'pipectl retries by itself'

/** The first pattern that matches the code of the error decides. */
const causes: readonly (readonly [code: RegExp, cause: string, advice: string])[] = [
  [/^ECONNREFUSED$/, 'connection refused', 'Start the server, or correct the host and port.'],
  [
    /^(ENOTFOUND|EAI_AGAIN)$/,
    'host name not found',
    'Correct the host name, or check the DNS of the pipectl server.',
  ],
  [
    /^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/,
    'server not reachable',
    'Check that the server is running, and the firewall between it and pipectl.',
  ],
  [
    /^(attempt_timeout|timeout|57014|ER_STATEMENT_TIMEOUT|UND_ERR_(HEADERS|BODY)_TIMEOUT|http_(408|504)|RequestTimeout)$/,
    'no response in time',
    `Find out why the server is slow, or raise the timeout of the destination; ${retries}.`,
  ],
  [
    /^certificate_changed$/,
    'server key changed',
    'If the server has a new certificate, use Reset server key; otherwise find out which server responds there.',
  ],
  [/^(tls_unavailable|no_tls|HANDSHAKE_NO_SSL_SUPPORT)$/, 'no TLS', 'Enable TLS on the server.'],
  [
    /^certificate_|CERT|^UNABLE_TO_|SELF_SIGNED|^ERR_(SSL|TLS)|^EPROTO$/,
    'TLS certificate not accepted',
    'Renew the certificate of the server, or set its certificate authority (tls_ca) in the destination.',
  ],
  [
    /^(ECONNRESET|EPIPE|UND_ERR_SOCKET|connection_lost|ER_CONNECTION_KILLED|57P0.|08...|http_502|http_503)$/,
    'server unavailable',
    `Check the server and its log; ${retries}.`,
  ],
  [
    /^(28P01|28000|ER_ACCESS_DENIED_.*|http_401|authorization_violation|SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|InvalidToken|no_credentials|CredentialsProviderError)$/,
    'sign-in rejected',
    'Correct the user name, password or key of the destination, then retry.',
  ],
  [
    /^(42501|http_403|AccessDenied|Forbidden|permissions_violation|ER_(TABLE|COLUMN|DB)ACCESS_DENIED_ERROR)$/,
    'permission missing',
    'Give the user or key of the destination the permission to write, then retry.',
  ],
  [
    /^(42P01|3F000|ER_NO_SUCH_TABLE|ER_UNKNOWN_TABLE)$/,
    'table missing',
    'Create the table, or correct its name in the destination, then retry.',
  ],
  [
    /^(3D000|ER_BAD_DB_ERROR)$/,
    'database missing',
    'Create the database, or correct its name in the destination, then retry.',
  ],
  [
    /^(42703|ER_BAD_FIELD_ERROR)$/,
    'column missing',
    'Add the column to the table, or change the column mappings, then retry.',
  ],
  [
    /^(NoSuchBucket|NotFound)$/,
    'bucket missing',
    'Create the bucket, or correct its name in the destination, then retry.',
  ],
  [/^http_(404|410)$/, 'address not found', 'Correct the URL of the destination, then retry.'],
  [/^http_3..$/, 'redirect', 'Set the URL of the destination to the final address, then retry.'],
  [
    /^(53100|ER_DISK_FULL|ER_RECORD_FILE_FULL|http_507)$/,
    'disk of the server full',
    `Free disk space on that server; ${retries}.`,
  ],
  [
    /^(53300|ER_CON_COUNT_ERROR|ER_TOO_MANY_USER_CONNECTIONS)$/,
    'too many connections',
    `Raise the connection limit of the server, or close unused connections; ${retries}.`,
  ],
  [
    /^(http_429|SlowDown|Throttling.*|TooManyRequestsException)$/,
    'too many requests',
    `Set a lower rate in the destination, or raise the limit of the server; ${retries}.`,
  ],
  [
    /^(25006|ER_OPTION_PREVENTS_STATEMENT|ER_READ_ONLY_MODE|ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION)$/,
    'server is read-only',
    'Check whether it is a standby, and set the host of the primary.',
  ],
  [
    /^egress_denied$/,
    'address not allowed',
    'Ask the operator of pipectl to allow the address (egress.allow), then retry.',
  ],
  [/^secret_unreadable$/, 'secret not readable', 'Enter the secrets of the destination again.'],
  [
    /^http_5..$/,
    'server error',
    `Check the log of the endpoint: it fails when it receives the records; ${retries}.`,
  ],
]

/** The cause of a lane that fails or is blocked. */
export function causeOf({ lane }: FailingLane): Cause {
  if (lane.lane_state === 'blocked') return blocked
  const error = lane.last_error
  if (error === null) return { cause: 'an attempt failed', advice: `Open the lane; ${retries}.` }
  const { code, fault } = error
  if (fault === 'records') {
    return {
      cause: `records rejected (${codeWords(code)})`,
      advice:
        'Make the destination accept these records, then retry; or skip the message, correct its parked records and replay them.',
    }
  }
  const [, cause, advice] = causes.find(([pattern]) => pattern.test(code)) ?? []
  if (cause === undefined || advice === undefined) {
    const isPermanent = error.class === 'permanent'
    return {
      cause: `error ${codeWords(code)}`,
      advice: isPermanent
        ? 'Correct the destination, test it, then retry.'
        : `Open the lane for its attempts; ${retries}.`,
    }
  }
  return { cause: code.startsWith('http_') ? `${cause} (${codeWords(code)})` : cause, advice }
}

/** `http_500`: "HTTP 500". */
function codeWords(code: string): string {
  return code.replace(/^http_/, 'HTTP ')
}
