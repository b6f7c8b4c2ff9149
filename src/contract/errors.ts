/**
 * The catalogue of all error codes of the service.
 *
 * To report an error to the caller, code throws `new ApiError('pipe_not_found')`. `api/http/response.ts` converts it
 * into status, headers and the body `{error, message, …details}`. The catalogue has the default message; pass another
 * one only if it is more specific.
 */
import { resourceLimits } from './resource-limits.ts'

const withStatus = (status: number) => (message: string) => ({ status, message })
const badRequest = withStatus(400)
const unauthenticated = withStatus(401)
const notAllowed = withStatus(403)
const notFound = withStatus(404)
const conflict = withStatus(409)
const gone = withStatus(410)
const tooLarge = withStatus(413)
const unprocessable = withStatus(422)
const tooMany = withStatus(429)
const broken = withStatus(500)
const unavailable = withStatus(503)

export const errorCatalogue = {
  // Management
  validation_error: badRequest('The request is not valid; see errors.'),
  cannot_revoke_current_key: badRequest(
    'A key cannot revoke itself: create a new key, then revoke this one with it.',
  ),
  destination_not_found: notFound('No such destination on this pipe.'),
  origin_not_found: notFound('No such allowed origin on this pipe.'),
  api_key_not_found: notFound('No active API key with this id.'),
  alerts_not_set_up: notFound('This workspace has no alerts: set them up with PUT /v1/alerts.'),
  no_blocking_message: notFound('No message is blocking this lane.'),
  message_not_found: notFound('No message has this id: it never existed, or it is no longer kept.'),
  parked_not_found: notFound(
    'No record is parked here with this id: it was replayed, discarded, or removed after parked.days.',
  ),
  parked_full: conflict(
    'Nothing was skipped: a skip parks the message, and there is no room for it. Replay or discard parked records, or raise the setting parked.max_bytes.',
  ),
  changed_meanwhile: {
    status: 412,
    message:
      'Nothing was done, because this was changed after you read it. `present` is the current state: send the change again with the new ETag in If-Match.',
  },
  parked_replaying: conflict('This record is being replayed: wait for the result.'),
  parked_mismatch: conflict(
    'The record does not match the schema of the pipe, and stays parked; see errors. Edit it, or replay it with force.',
  ),
  replay_not_found: notFound(
    'This destination has no replay with this id: it never existed, or it finished too long ago.',
  ),
  replay_finished: conflict('This replay has ended already.'),
  too_many_replays: conflict(
    'Too many replays of this destination are waiting: cancel one, or wait until one is done.',
  ),
  privacy_job_not_found: notFound(
    'This workspace has no such job: it never existed, or it finished too long ago.',
  ),
  privacy_job_finished: conflict('This job has ended already.'),
  too_many_privacy_jobs: conflict(
    'Too many of these jobs are waiting: cancel one, or wait until one is done.',
  ),
  privacy_unavailable: conflict(
    'In a cluster, records cannot be found or deleted in the buffer: delete them in the destinations, discard parked records, and let the buffer expire (buffer.delivered_hours, buffer.undelivered_hours), or delete the pipe.',
  ),
  duplicate_pipe_name: conflict('A pipe with this name already exists.'),
  duplicate_destination_name: conflict('A destination of this pipe already has this name.'),
  duplicate_origin: conflict('This origin is already allowed for the pipe.'),
  duplicate_api_key_name: conflict('An active API key with this name already exists.'),
  workspace_full: conflict(
    'This workspace or pipe has reached a limit of the service: delete one of these resources, or raise the setting.',
  ),
  not_queryable: conflict('Only the tables of a SQLite destination can be queried.'),
  query_failed: unprocessable('The query was stopped; see reason.'),
  query_concurrency_exceeded: tooMany(
    `Too many queries at the same time: at most ${resourceLimits.queriesPerWorkspace} per workspace, and ${resourceLimits.queries} in total.`,
  ),
  // Users and their sessions
  user_not_found: notFound('No such user.'),
  duplicate_user_email: conflict('This workspace already has a user with this e-mail address.'),
  last_admin: conflict('This is the last admin of the workspace: make another user an admin first.'),
  sign_in_failed: unauthenticated('The e-mail address or the password is wrong.'),
  session_required: unauthenticated('There is no session, or it has expired: sign in.'),
  setup_link_invalid: gone(
    'This setup link was used, has expired or never existed. Create another one: `pipectl users setup-link`.',
  ),
  csrf_token_invalid: notAllowed(
    'X-CSRF-Token is missing or does not belong to this session: read the session again for its token.',
  ),
  origin_mismatch: notAllowed(
    'The request does not come from a page of this service: its Origin is missing or different.',
  ),
  host_not_allowed: {
    status: 421,
    message:
      'The dashboard is not served under this name: use the host of the setting public_url, the listen address or localhost.',
  },
  too_many_attempts: tooMany('Too many attempts to sign in: try again later.'),
  too_many_requests: tooMany(
    'Too many requests from this session, or from the keys of this workspace: wait for the seconds in Retry-After.',
  ),
  sign_in_busy: unavailable('Too many users are signing in at the moment: try again.'),
  // All operations
  unauthorized: unauthenticated('A valid API key is required: Authorization: Bearer <API_KEY>.'),
  pipe_not_found: notFound('No such pipe.'),
  not_found: notFound('No such path.'),
  method_not_allowed: { status: 405, message: 'Method not allowed for this path.' },
  bad_request: badRequest('The HTTP request is malformed.'),
  headers_too_large: {
    status: 431,
    message: `The headers of the request exceed ${resourceLimits.headBytes} bytes in total.`,
  },
  payload_too_large: tooLarge('The request body exceeds the limit.'),
  storage_unavailable: unavailable(
    'The storage of the service is not available: a disk is full or busy, or a server of its cluster does not respond. Try again later.',
  ),
  server_error: broken('Internal server error. The request can be retried.'),
  // Ingest
  invalid_pipe_id: badRequest('The pipe id in the path is not a UUID.'),
  invalid_payload: badRequest('The body must be one JSON object or an array of objects.'),
  empty_payload: badRequest('The body contains no records.'),
  missing_required_fields: badRequest(
    'A record lacks keys that a destination requires: see record_index and fields.',
  ),
  schema_mismatch: badRequest('Records do not match the schema of the pipe; see errors. Nothing was stored.'),
  forbidden: notAllowed('This Origin is not allowed for the pipe.'),
  idempotency_key_reused: {
    status: 422,
    message:
      'This Idempotency-Key was used with another body in the last 24 hours: use a new key for every new body.',
  },
  batch_too_large: tooLarge('Too many records in one request for this pipe.'),
  unsupported_encoding: { status: 415, message: 'Content-Encoding must be gzip, deflate or br.' },
  rate_limit_exceeded: tooMany('Too many records per second for this pipe.'),
  daily_quota_exceeded: tooMany('The daily limit of this pipe is used up until midnight UTC.'),
  configuration_error: broken(
    'This pipe requires no API key and has no allowed origin: add an allowed origin.',
  ),
  buffer_unavailable: unavailable(
    'The records could not be stored. Nothing was kept; it is safe to send the request again.',
  ),
  // Webhooks
  hook_not_found: notFound('No such webhook address.'),
  hook_rejected: unauthenticated('The webhook could not be verified; see reason.'),
  // Pull
  invalid_destination_id: badRequest('The destination id in the path is not a UUID.'),
  invalid_wait_ms: badRequest('wait_ms must be a whole number of milliseconds, 0 or more.'),
  invalid_after_seq: badRequest('after_seq must be a whole number, 0 or more.'),
  invalid_msg_id: badRequest('The body must be {"msg_id": <UUID>}.'),
  lease_expired: conflict(
    'This message is not leased: the lease has expired, or the message was already acknowledged.',
  ),
  cursor_ahead: conflict('after_seq is beyond the newest message of the pipe.'),
  cursor_expired: gone(
    'The messages after after_seq are no longer kept: continue with after_seq = earliest_seq - 1.',
  ),
  tail_concurrency_exceeded: tooMany(
    `Too many live tails: at most ${resourceLimits.tailsPerWorkspace} per workspace, and ${resourceLimits.tails} in total.`,
  ),
  pull_concurrency_exceeded: tooMany('Too many waiting pulls in this workspace.'),
} as const satisfies Record<string, { status: number; message: string }>

export type ErrorCode = keyof typeof errorCatalogue

export interface ApiErrorOptions {
  message?: string
  /** Additional fields of the body, next to `error` and `message`. */
  details?: Record<string, unknown>
  /** Additional response headers, such as `Retry-After`. */
  headers?: Record<string, string>
}

/** An error that is reported to the caller, with a code of the catalogue. */
export class ApiError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly details: Record<string, unknown>
  readonly headers: Record<string, string>

  constructor(code: ErrorCode, options: ApiErrorOptions = {}) {
    super(options.message ?? errorCatalogue[code].message)
    this.name = 'ApiError'
    this.code = code
    this.status = errorCatalogue[code].status
    this.details = options.details ?? {}
    this.headers = options.headers ?? {}
  }

  /** The response body: `{error, message, …details}`. */
  body(): Record<string, unknown> {
    return { error: this.code, message: this.message, ...this.details }
  }
}

/**
 * 400 `validation_error` with the flat `errors` map: dot-joined path → sentence. Only the first hundred entries are
 * kept.
 */
export function validationError(errors: Record<string, string>): ApiError {
  const { explainedFields } = resourceLimits
  const entries = Object.entries(errors)
  if (entries.length <= explainedFields) return new ApiError('validation_error', { details: { errors } })
  // No prototype, because a field in a request can be named __proto__.
  const first: Record<string, string> = Object.create(null)
  for (const [path, sentence] of entries.slice(0, explainedFields)) first[path] = sentence
  return new ApiError('validation_error', {
    message: `The request is not valid in ${entries.length} places; errors lists the first ${explainedFields}.`,
    details: { errors: first },
  })
}

/** 413 `payload_too_large` for a body larger than `maxBytes`. */
export function payloadTooLarge(maxBytes: number): ApiError {
  return new ApiError('payload_too_large', {
    message: `The request body exceeds ${maxBytes} bytes, as sent or after decompression.`,
  })
}
