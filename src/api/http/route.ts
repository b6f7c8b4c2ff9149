/** A route as data: everything that the HTTP layer needs to serve one operation, without types of an HTTP library. */
import type { ApiKeyScope } from '../../contract/api-key.ts'
import type { ErrorCode } from '../../contract/errors.ts'
import type { BodyLimits } from '../../contract/operation.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ResponseStream } from './response-stream.ts'

export interface ApiRequest {
  /** Path parameters, as sent (not decoded, not checked). */
  params: Record<string, string>
  query: URLSearchParams
  /** Lower-case names. */
  headers: Record<string, string>
  /** The parsed JSON body; undefined when there was none. */
  body: unknown
  /** The bytes of the body, for handlers that must not parse it. Absent if there was none. */
  bodyBytes?: Buffer
  /** The caller. Null on routes without authentication. */
  principal: Principal | null
  /** The address of the client, also behind a trusted proxy. Null if it is not known. */
  address?: string | null
  /** The visit of a browser, on routes that are only for browsers. */
  visit?: Visit | null
  /** True once the client has disconnected. Absent: not known. */
  isAborted?(): boolean
  /** Whether the caller still has access, for long responses. Absent: access is not checked again. */
  isStillAdmitted?(): Promise<boolean>
}

/** A request of a browser to the dashboard. */
export interface Visit {
  /** The address by which attempts to sign in are counted: an IPv4 address, or the /64 network of an IPv6 one. */
  address: string
  /** Whether the browser uses TLS, to this service or to a proxy in front of it. */
  isSecure: boolean
  /** The value of the session cookie. Null if there is none. */
  sessionToken: string | null
  /** The value of the cookie that a browser keeps after its first sign-in. Null if there is none. */
  browserToken: string | null
}

export interface ApiReply {
  status: number
  /** Sent as JSON. A Buffer is sent unchanged. */
  body?: unknown
  /** A name can occur more than once (`Set-Cookie`). `Content-Type` and `Cache-Control` replace the usual ones. */
  headers?: readonly (readonly [name: string, value: string])[]
  /** Called once: true when the whole response was handed to the socket, false when the client disconnected before. */
  onSent?(wasSent: boolean): void
  /** Writes the body piece by piece, instead of `body`. `gone` resolves when the client has disconnected. */
  stream?(stream: ResponseStream, gone: Promise<void>): void
}

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /**
   * With parameters in braces, as in the OpenAPI document: `/v1/pipes/{pipe_id}`. For `/dashboard/*` see ServedPath.
   */
  path: string
  operationId: string
  /** The listeners that serve it: those of management, those of ingest and pull, or all. */
  surface: 'management' | 'data' | 'all'
  /**
   * Who can call it. `key`: any client with an active API key. The others are for browsers, below /dashboard, under a
   * host name of this service (`dashboard-gate.ts`). `page`: anyone; `form`: anyone on one of our pages; `session`: a
   * signed-in user.
   */
  auth: 'none' | 'key' | 'page' | 'form' | 'session'
  /** The scope that the key must have, or the right that the signed-in user must have. Default: `read`. */
  needs?: ApiKeyScope
  /** The right that a signed-in user must have, if it differs from `needs`. */
  needsOfSession?: ApiKeyScope
  /** False: keys that are limited to some pipes get a 403. Default: true. */
  isForBoundKeys?: boolean
  /** False for a GET that changes something (pull). Default: a GET also serves HEAD. */
  supportsHead?: boolean
  /** The limits of its body. Default: `smallBody`. */
  bodyLimits?: BodyLimits
  /** The error for a body that is not a JSON object. Default: `validation_error` with `errors: {"": …}`. */
  bodyError?: ErrorCode
  handler(request: ApiRequest): Promise<ApiReply>
}
