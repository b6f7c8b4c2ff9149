/**
 * One request to the daemon: sends, reads the whole answer as text, and turns every way it can fail into a Failure.
 * Answers are kept as text because records must be shown as they are: parsing would round numbers.
 *
 * It uses the fetch that Node brings: importing an HTTP library would cost more than the rest of a short command.
 */
import { ApiFailure, exitCodes, Failure, UnreachableFailure } from './failure.ts'

export interface Answer {
  status: number
  headers: Headers
  text: string
}

export interface SendOptions {
  /** Sent as JSON unless it is bytes. */
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Whole request and answer. Default 30 s. */
  timeoutMs?: number
}

/**
 * Sends one request. Resolves on 2xx. Throws ApiFailure on an error body, UnreachableFailure when there is no usable
 * answer, and the signal's own reason when the caller aborted.
 */
export async function send(
  baseUrl: string,
  apiKey: string | null,
  method: string,
  path: string,
  options: SendOptions = {},
): Promise<Answer> {
  const headers: Record<string, string> = { accept: 'application/json', ...options.headers }
  if (apiKey !== null) headers.authorization = `Bearer ${headerSafe(apiKey)}`
  const init: RequestInit = { method, headers, redirect: 'manual' }
  if (options.body instanceof Uint8Array) init.body = options.body
  else if (options.body !== undefined) {
    headers['content-type'] ??= 'application/json'
    init.body = JSON.stringify(options.body)
  }
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 30_000)
  init.signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout])
  let answer: Answer
  try {
    const response = await fetch(baseUrl + path, init)
    answer = { status: response.status, headers: response.headers, text: await response.text() }
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason
    throw new UnreachableFailure(baseUrl, why(error), error)
  }
  if (answer.status >= 200 && answer.status < 300) return answer
  throw failureOf(baseUrl, answer)
}

function headerSafe(apiKey: string): string {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey
  throw new Failure(
    exitCodes.auth,
    'the API key holds spaces or characters that no key has',
    'give the key alone, as it was shown when it was made (ppl1_…)',
  )
}

function failureOf(baseUrl: string, answer: Answer): Failure {
  if (answer.status >= 300 && answer.status < 400) {
    return new UnreachableFailure(
      baseUrl,
      `it redirects to ${answer.headers.get('location') ?? 'elsewhere'}, which pipectl never does`,
    )
  }
  const body = parseObject(answer.text)
  if (body === null) {
    return new UnreachableFailure(
      baseUrl,
      `what answers there (HTTP ${answer.status}, not JSON) is not pipectl`,
    )
  }
  return new ApiFailure(answer.status, body, retryAfterMs(answer.headers.get('retry-after'), Date.now()))
}

/** `Retry-After` in milliseconds: seconds or an HTTP date. Null when absent or unreadable. */
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

export function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

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
}

function why(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'no answer in time'
  const cause = error instanceof Error ? error.cause : undefined
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause
  const code = codeOf(inner) ?? codeOf(cause)
  if (code !== null) return reasons[code] ?? code
  if (inner instanceof Error) return inner.message
  return error instanceof Error ? error.message : String(error)
}

function codeOf(error: unknown): string | null {
  if (error === null || typeof error !== 'object' || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}
