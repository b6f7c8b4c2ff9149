/** A route as data: what the HTTP layer needs to serve one operation, without any HTTP library's types. */
import type { ErrorCode } from '../contract/errors.ts'
import type { Principal } from '../directory/principal.ts'

export interface ApiRequest {
  /** Path parameters, as sent (not decoded, not checked). */
  params: Record<string, string>
  query: URLSearchParams
  /** Lower-case names. */
  headers: Record<string, string>
  /** The parsed JSON body; undefined when there was none. */
  body: unknown
  /** Who makes the request; null on routes without authentication. */
  principal: Principal | null
  /** True once the client has gone. Absent: not known. */
  isAborted?(): boolean
}

export interface ApiReply {
  status: number
  /** Sent as JSON; a Buffer is sent as it is. */
  body?: unknown
  /** A name may occur more than once (`Set-Cookie`). `Content-Type` and `Cache-Control` replace the usual ones. */
  headers?: readonly (readonly [name: string, value: string])[]
  /** Called once: true when the response was wholly handed to the socket, false when the client went away before. */
  onSent?(wasSent: boolean): void
}

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With parameters in braces, as the OpenAPI document writes them: `/v1/pipes/{pipe_id}`. */
  path: string
  operationId: string
  /** The listeners that serve it: those of management, those of ingest and pull, or all. */
  surface: 'management' | 'data' | 'all'
  auth: 'none' | 'key'
  /** False for a GET that changes something (pull). Default: a GET also serves HEAD. */
  supportsHead?: boolean
  /** The error for a body that is not a JSON object. Default: `validation_error` with `errors: {"": …}`. */
  bodyError?: ErrorCode
  handler(request: ApiRequest): Promise<ApiReply>
}
