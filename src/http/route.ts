/** A route as data: what the HTTP layer needs to serve one operation, without any HTTP library's types. */
import type { ErrorCode } from '../contract/errors.ts'
import type { DirectoryKey } from '../ingest/directory.ts'

export interface ApiRequest {
  /** Path parameters, as sent (not decoded, not checked). */
  params: Record<string, string>
  query: URLSearchParams
  /** Lower-case names. */
  headers: Record<string, string>
  /** The parsed JSON body; undefined when there was none. */
  body: unknown
  /** Whose key the request carries; null on routes without authentication. */
  key: DirectoryKey | null
  /** True once the client has gone. Absent: not known. */
  isAborted?(): boolean
}

export interface ApiReply {
  status: number
  /** Sent as JSON; a Buffer is sent as it is. */
  body?: unknown
  headers?: Record<string, string>
  /** Called once: true when the response was wholly handed to the socket, false when the client went away before. */
  onSent?(wasSent: boolean): void
}

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With parameters in braces, as the OpenAPI document writes them: `/v1/pipes/{pipe_id}`. */
  path: string
  operationId: string
  auth: 'none' | 'key'
  /** A GET that changes something (pull) does not answer HEAD. Default: GET answers HEAD. */
  answersHead?: boolean
  /** The error for a body that is not a JSON object. Default: `validation_error` with `errors: {"": …}`. */
  bodyError?: ErrorCode
  handler(request: ApiRequest): Promise<ApiReply>
}
