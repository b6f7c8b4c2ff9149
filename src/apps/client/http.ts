/**
 * Sends one request to the daemon, reads the complete response as text, and converts every error into a Failure.
 * Responses are kept as text because records must be shown exactly as they are; parsing would round numbers.
 *
 * Uses the platform's fetch, in Node and browsers. Importing an HTTP library would take longer than the rest of a
 * short command.
 */
import { isObject } from '../../contract/is-object.ts'
import { errorCode } from '../../platform/error-code.ts'
import { ApiFailure, exitCodes, Failure, UnreachableFailure } from './failure.ts'

export interface HttpResponse {
  status: number
  headers: Headers
  text: string
}

export interface Credentials {
  apiKey: string | null
  /** The source of the key, for the message if the key is rejected. */
  keySource?: string | null
  /** `ClientOptions.changeHeaders` */
  changeHeaders?: (() => Record<string, string>) | undefined
}

export interface SendOptions {
  /** Sent as JSON unless it is bytes. */
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  /** For the complete request and response. Default: 30 s. */
  timeoutMs?: number | undefined
}

/**
 * Sends one request. Resolves on 2xx. Throws ApiFailure for an error body, UnreachableFailure if there is no usable
 * response, and the signal's reason if the caller aborts.
 */
export async function send(
  baseUrl: string,
  { apiKey, keySource = null, changeHeaders }: Credentials,
  { method, path, ...options }: SendOptions & { method: string; path: string },
): Promise<HttpResponse> {
  const headers: Record<string, string> = {
    accept: 'application/json',
    ...options.headers,
    ...authorization(apiKey),
  }
  if (method !== 'GET') Object.assign(headers, changeHeaders?.())
  const init: RequestInit = { method, headers, redirect: 'manual' }
  if (isBytes(options.body)) init.body = options.body
  else if (options.body !== undefined) {
    headers['content-type'] ??= 'application/json'
    init.body = JSON.stringify(options.body)
  }
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 30_000)
  init.signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout])
  let received: HttpResponse
  try {
    const response = await fetch(baseUrl + path, init)
    received = { status: response.status, headers: response.headers, text: await response.text() }
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason
    throw brokenConnection(baseUrl, error)
  }
  const { status } = received
  if (status >= 200 && status < 300) return received
  throw failureOf(baseUrl, received, keySource)
}

/**
 * The body of a GET while it arrives: an event stream without an end. Resolves when the headers have arrived. Throws
 * as `send` does. Reading the body throws the signal's reason, or the platform's error for a broken connection, which
 * `brokenConnection` describes.
 */
export async function openEvents(
  baseUrl: string,
  { apiKey, keySource = null }: Credentials,
  path: string,
  { headers, signal }: { headers: Record<string, string>; signal: AbortSignal },
): Promise<ReadableStream<Uint8Array>> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new DOMException('', 'TimeoutError')), 30_000)
  try {
    const response = await fetch(baseUrl + path, {
      headers: { accept: 'text/event-stream, application/json', ...headers, ...authorization(apiKey) },
      redirect: 'manual',
      signal: AbortSignal.any([signal, late.signal]),
    })
    const isStream = /^text\/event-stream\b/.test(response.headers.get('content-type') ?? '')
    if (response.status === 200 && isStream && response.body !== null) return response.body
    const received = { status: response.status, headers: response.headers, text: await response.text() }
    throw failureOf(baseUrl, received, keySource)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw error instanceof Failure ? error : brokenConnection(baseUrl, error)
  } finally {
    clearTimeout(timer)
  }
}

/** Describes why a connection broke. */
export function brokenConnection(baseUrl: string, error: unknown): UnreachableFailure {
  const reason = reasonOf(error)
  const isPlain = baseUrl.startsWith('https:') && (reason === notTls || endsOfOtherProtocol.has(reason))
  if (!isPlain) return new UnreachableFailure(baseUrl, reason, error)
  const why = reason === notTls ? reason : `${reason}; does it speak TLS?`
  const hint = `if it does not speak TLS, use ${baseUrl.replace('https:', 'http:')}`
  return new UnreachableFailure(baseUrl, why, error, hint)
}

function authorization(apiKey: string | null): Record<string, string> {
  return apiKey === null ? {} : { authorization: `Bearer ${headerSafe(apiKey)}` }
}

/** Excludes memory that is shared between threads, because browsers cannot send it. */
function isBytes(body: unknown): body is Uint8Array<ArrayBuffer> {
  return body instanceof Uint8Array
}

function headerSafe(apiKey: string): string {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey
  throw new Failure(
    exitCodes.auth,
    'the API key contains spaces or characters that no key has',
    'give only the key, as it was shown when it was created (ppl1_…)',
  )
}

function failureOf(baseUrl: string, received: HttpResponse, keySource: string | null): Failure {
  if (received.status >= 300 && received.status < 400) {
    return new UnreachableFailure(
      baseUrl,
      `it redirects to ${received.headers.get('location') ?? 'elsewhere'}, which pipectl never does`,
    )
  }
  const body = parseObject(received.text)
  if (body === null) {
    return new UnreachableFailure(baseUrl, `the server is not pipectl: HTTP ${received.status} without JSON`)
  }
  const waitMs = retryAfterMs(received.headers.get('retry-after'), Date.now())
  return new ApiFailure(received.status, body, waitMs, keySource)
}

/** `Retry-After` in milliseconds, from seconds or an HTTP date. Null: absent or invalid. */
export function retryAfterMs(value: string | null, nowMs: number): number | null {
  if (value === null) return null
  if (/^\d+$/.test(value)) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}

export function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

const unknownAuthority =
  'its certificate is of an authority that is not trusted here; name that in NODE_EXTRA_CA_CERTS=FILE'

const notTls = 'it does not speak TLS'

const reasons: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  ENOTFOUND: 'no such host name',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'the connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  ERR_SSL_WRONG_VERSION_NUMBER: notTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: notTls,
}

/** These errors also occur if only one side of the connection uses TLS. */
const endsOfOtherProtocol = new Set(['no response in time', reasons.ECONNRESET, reasons.ETIMEDOUT])

function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'no response in time'
  const cause = error instanceof Error ? error.cause : undefined
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause
  const code = errorCode(inner) ?? errorCode(cause)
  if (code !== null) return reasons[code] ?? code
  if (inner instanceof Error) return inner.message
  return error instanceof Error ? error.message : String(error)
}
