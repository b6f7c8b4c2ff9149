/**
 * The catalogue of all error codes of the service.
 *
 * To report an error to the caller, code throws `new ApiError('pipe_not_found')`. `api/http/response.ts` converts it
 * into status, headers and the body `{error, message, …details}`. The catalogue has the default message; pass another
 * one only if it is more specific.
 */
import { resourceLimits } from './resource-limits.ts'

export const errorCatalogue = {
  // Management
  validation_error: { status: 400, message: 'The request is not valid; see errors.' },
  cannot_revoke_current_key: {
    status: 400,
    message: 'A key cannot revoke itself: create a new key, then revoke this one with it.',
  },
  destination_not_found: { status: 404, message: 'No such destination on this pipe.' },
  origin_not_found: { status: 404, message: 'No such allowed origin on this pipe.' },
  api_key_not_found: { status: 404, message: 'No active API key with this id.' },
  alerts_not_set_up: {
    status: 404,
    message: 'This workspace has no alerts: set them up with PUT /v1/alerts.',
  },
  no_blocking_message: { status: 404, message: 'No message is blocking this lane.' },
  message_not_found: {
    status: 404,
    message: 'No message has this id: it never existed, or it is no longer kept.',
  },
  parked_not_found: {
    status: 404,
    message:
      'This destination has no parked record with this id: it was replayed, discarded, or removed after parked.days.',
  },
  parked_full: {
    status: 409,
    message:
      'Nothing was skipped: a skip parks the message, and there is no room for it. Replay or discard parked records, or raise the setting parked.max_bytes.',
  },
  changed_meanwhile: {
    status: 412,
    message:
      'Nothing was done, because this was changed after you read it. `present` is the current state: send the change again with the new ETag in If-Match.',
  },
  parked_replaying: {
    status: 409,
    message: 'This record is being replayed: wait for the result.',
  },
  duplicate_pipe_name: { status: 409, message: 'A pipe with this name already exists.' },
  duplicate_destination_name: {
    status: 409,
    message: 'A destination of this pipe already has this name.',
  },
  duplicate_origin: { status: 409, message: 'This origin is already allowed for the pipe.' },
  duplicate_api_key_name: { status: 409, message: 'An active API key with this name already exists.' },
  workspace_full: {
    status: 409,
    message:
      'This workspace or pipe has reached a limit of the service: delete one of these resources, or raise the setting.',
  },
  // Users and their sessions
  user_not_found: { status: 404, message: 'No such user.' },
  duplicate_user_email: {
    status: 409,
    message: 'This workspace already has a user with this e-mail address.',
  },
  last_admin: {
    status: 409,
    message: 'This is the last admin of the workspace: make another user an admin first.',
  },
  sign_in_failed: { status: 401, message: 'The e-mail address or the password is wrong.' },
  session_required: { status: 401, message: 'There is no session, or it has expired: sign in.' },
  setup_link_invalid: {
    status: 410,
    message:
      'This setup link was used, has expired or never existed. Create another one: `pipectl users setup-link`.',
  },
  csrf_token_invalid: {
    status: 403,
    message:
      'X-CSRF-Token is missing or does not belong to this session: read the session again for its token.',
  },
  origin_mismatch: {
    status: 403,
    message: 'The request does not come from a page of this service: its Origin is missing or different.',
  },
  host_not_allowed: {
    status: 421,
    message:
      'The dashboard is not served under this name: use the host of the setting public_url, the listen address or localhost.',
  },
  too_many_attempts: { status: 429, message: 'Too many attempts to sign in: try again later.' },
  too_many_requests: {
    status: 429,
    message:
      'Too many requests from this session, or from the keys of this workspace: wait for the seconds in Retry-After.',
  },
  sign_in_busy: { status: 503, message: 'Too many users are signing in at the moment: try again.' },
  // All operations
  unauthorized: { status: 401, message: 'A valid API key is required: Authorization: Bearer <API_KEY>.' },
  pipe_not_found: { status: 404, message: 'No such pipe.' },
  not_found: { status: 404, message: 'No such path.' },
  method_not_allowed: { status: 405, message: 'Method not allowed for this path.' },
  bad_request: { status: 400, message: 'The HTTP request is malformed.' },
  headers_too_large: {
    status: 431,
    message: `The headers of the request exceed ${resourceLimits.headBytes} bytes in total.`,
  },
  payload_too_large: { status: 413, message: 'The request body exceeds the limit.' },
  storage_unavailable: {
    status: 503,
    message:
      'The storage of the service is not available: a disk is full or busy, or a server of its cluster does not respond. Try again later.',
  },
  server_error: { status: 500, message: 'Internal server error. The request can be retried.' },
  // Ingest
  invalid_pipe_id: { status: 400, message: 'The pipe id in the path is not a UUID.' },
  invalid_payload: { status: 400, message: 'The body must be one JSON object or an array of objects.' },
  empty_payload: { status: 400, message: 'The body contains no records.' },
  missing_required_fields: {
    status: 400,
    message: 'A record lacks keys that a destination requires: see record_index and fields.',
  },
  forbidden: { status: 403, message: 'This Origin is not allowed for the pipe.' },
  idempotency_key_reused: {
    status: 422,
    message:
      'This Idempotency-Key was used with another body in the last 24 hours: use a new key for every new body.',
  },
  batch_too_large: { status: 413, message: 'Too many records in one request for this pipe.' },
  unsupported_encoding: { status: 415, message: 'Content-Encoding must be gzip, deflate or br.' },
  rate_limit_exceeded: { status: 429, message: 'Too many records per second for this pipe.' },
  daily_quota_exceeded: {
    status: 429,
    message: 'The daily limit of this pipe is used up until midnight UTC.',
  },
  configuration_error: {
    status: 500,
    message: 'This pipe requires no API key and has no allowed origin: add an allowed origin.',
  },
  buffer_unavailable: {
    status: 503,
    message: 'The records could not be stored. Nothing was kept; it is safe to send the request again.',
  },
  // Pull
  invalid_destination_id: { status: 400, message: 'The destination id in the path is not a UUID.' },
  invalid_wait_ms: { status: 400, message: 'wait_ms must be a whole number of milliseconds, 0 or more.' },
  invalid_after_seq: { status: 400, message: 'after_seq must be a whole number, 0 or more.' },
  invalid_msg_id: { status: 400, message: 'The body must be {"msg_id": <UUID>}.' },
  lease_expired: {
    status: 409,
    message: 'This message is not leased: the lease has expired, or the message was already acknowledged.',
  },
  cursor_ahead: { status: 409, message: 'after_seq is beyond the newest message of the pipe.' },
  cursor_expired: {
    status: 410,
    message: 'The messages after after_seq are no longer kept: continue with after_seq = earliest_seq - 1.',
  },
  tail_concurrency_exceeded: {
    status: 429,
    message: `Too many live tails: at most ${resourceLimits.tailsPerWorkspace} per workspace, and ${resourceLimits.tails} in total.`,
  },
  pull_concurrency_exceeded: { status: 429, message: 'Too many waiting pulls in this workspace.' },
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
