/**
 * Every error code the service answers with: the catalogue.
 *
 * An error of the caller is `throw new ApiError('pipe_not_found')`; it is turned into a status, headers and
 * the body `{error, message, …details}` in one place (`http/reply.ts`). The default message stands here; a
 * thrower gives its own only when it can say more.
 */
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
  no_blocking_message: { status: 404, message: 'No message is blocking this lane.' },
  duplicate_pipe_name: { status: 409, message: 'A pipe with this name exists already.' },
  duplicate_origin: { status: 409, message: 'This origin is allowed for the pipe already.' },
  duplicate_api_key_name: { status: 409, message: 'An active API key with this name exists already.' },
  // Everywhere
  unauthorized: { status: 401, message: 'A valid API key is required: Authorization: Bearer <API_KEY>.' },
  pipe_not_found: { status: 404, message: 'No such pipe.' },
  not_found: { status: 404, message: 'No such path.' },
  method_not_allowed: { status: 405, message: 'This path does not answer this method.' },
  bad_request: { status: 400, message: 'The HTTP request is malformed.' },
  payload_too_large: { status: 413, message: 'The body is larger than this server takes.' },
  server_error: { status: 500, message: 'Something failed on our side; the request may be repeated.' },
  // Ingest
  invalid_pipe_id: { status: 400, message: 'The pipe id in the path is not a UUID.' },
  invalid_payload: { status: 400, message: 'The body must be one JSON object or an array of objects.' },
  empty_payload: { status: 400, message: 'The body holds no record.' },
  missing_required_fields: { status: 400, message: 'A record lacks fields that a destination requires.' },
  forbidden: { status: 403, message: 'This Origin is not allowed for the pipe.' },
  batch_too_large: { status: 413, message: 'More records than the pipe takes in one request.' },
  unsupported_encoding: { status: 415, message: 'Content-Encoding must be gzip, deflate or br.' },
  rate_limit_exceeded: { status: 429, message: 'More records a second than the pipe takes.' },
  daily_quota_exceeded: { status: 429, message: 'The pipe has used up its quota of this UTC day.' },
  configuration_error: {
    status: 500,
    message: 'The pipe takes browser requests without a key but allows no origin: add an allowed origin.',
  },
  buffer_unavailable: {
    status: 503,
    message: 'The record could not be made durable; nothing was kept, it is safe to send it again.',
  },
  // Pull
  invalid_destination_id: { status: 400, message: 'The destination id in the path is not a UUID.' },
  invalid_wait_ms: { status: 400, message: 'wait_ms must be a whole number of milliseconds, 0 or more.' },
  invalid_after_seq: { status: 400, message: 'after_seq must be a whole number, 0 or more.' },
  invalid_msg_id: { status: 400, message: 'The body must be {"msg_id": <UUID>}.' },
  lease_expired: {
    status: 409,
    message: 'This message is not leased: its lease is over, or it was answered.',
  },
  cursor_expired: { status: 410, message: 'Messages after after_seq are no longer kept.' },
  pull_concurrency_exceeded: { status: 429, message: 'Too many waiting pulls in this workspace.' },
} as const satisfies Record<string, { status: number; message: string }>

export type ErrorCode = keyof typeof errorCatalogue

export interface ApiErrorOptions {
  message?: string
  /** Extra fields of the body, beside `error` and `message`. */
  details?: Record<string, unknown>
  /** Extra response headers, e.g. `Retry-After`. */
  headers?: Record<string, string>
}

/** The caller's mistake (or ours to report to the caller): a code of the catalogue. */
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

  /** `{error, message, …details}`. */
  body(): Record<string, unknown> {
    return { error: this.code, message: this.message, ...this.details }
  }
}

/** 400 `validation_error` with the flat `errors` map: dot-joined path → a sentence for people. */
export function validationError(errors: Record<string, string>): ApiError {
  return new ApiError('validation_error', { details: { errors } })
}
