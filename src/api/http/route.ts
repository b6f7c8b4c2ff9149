/** A route as data: what the HTTP layer needs to serve one operation, without any HTTP library's types. */
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
  /** Its bytes, for what must not pass through a parser. Absent: there was none. */
  bodyBytes?: Buffer
  /** Who makes the request; null on routes without authentication. */
  principal: Principal | null
  /** The address of the client, also behind a trusted proxy; null: not known. */
  address?: string | null
  /** The visit of a browser, on routes that only browsers use. */
  visit?: Visit | null
  /** True once the client has gone. Absent: not known. */
  isAborted?(): boolean
  /** Whether who made the request would be let in now: of one that goes on. Absent: as before. */
  isStillAdmitted?(): Promise<boolean>
}

/** How a browser reaches the dashboard. */
export interface Visit {
  /** For counting attempts: an IPv4 address, or the /64 network of an IPv6 one. */
  address: string
  /** Over TLS, which a proxy in front ends. */
  isSecure: boolean
  /** The value of the session cookie; null: there is none. */
  sessionToken: string | null
  /** The value of the cookie that a browser keeps after it has signed in once; null: there is none. */
  browserToken: string | null
}

export interface ApiReply {
  status: number
  /** Sent as JSON; a Buffer is sent as it is. */
  body?: unknown
  /** A name may occur more than once (`Set-Cookie`). `Content-Type` and `Cache-Control` replace the usual ones. */
  headers?: readonly (readonly [name: string, value: string])[]
  /** Called once: true when the response was wholly handed to the socket, false when the client went away before. */
  onSent?(wasSent: boolean): void
  /** Instead of a body: writes it piece by piece. `gone` resolves when the client has gone. */
  stream?(stream: ResponseStream, gone: Promise<void>): void
}

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With parameters in braces, as the OpenAPI document writes them: `/v1/pipes/{pipe_id}`; `/dashboard/*`: see ServedPath. */
  path: string
  operationId: string
  /** The listeners that serve it: those of management, those of ingest and pull, or all. */
  surface: 'management' | 'data' | 'all'
  /**
   * Who may call it. `key`: any client with an active API key. The others are for browsers, below /dashboard, under a
   * name of this service (`dashboard-gate.ts`): `page`: anyone; `form`: anyone on a page of ours; `session`: a
   * signed-in user.
   */
  auth: 'none' | 'key' | 'page' | 'form' | 'session'
  /** The scope that the key must have, or the right that the signed-in user must have. Default: `read`. */
  needs?: ApiKeyScope
  /** The same for who is signed in, where it is another. */
  needsOfSession?: ApiKeyScope
  /** False: 403 for a key that is for some pipes alone. Default: true. */
  isForBoundKeys?: boolean
  /** False for a GET that changes something (pull). Default: a GET also serves HEAD. */
  supportsHead?: boolean
  /** The limits of its body. Default: `smallBody`. */
  bodyLimits?: BodyLimits
  /** The error for a body that is not a JSON object. Default: `validation_error` with `errors: {"": …}`. */
  bodyError?: ErrorCode
  handler(request: ApiRequest): Promise<ApiReply>
}
