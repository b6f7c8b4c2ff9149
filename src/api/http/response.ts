/** Responses as data, and the one place where an error becomes a status, headers and a body. */
import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { ApiError } from '../../contract/errors.ts'
import {
  DeliveryElsewhereError,
  DeliveryUnavailableError,
  StorageUnavailableError,
} from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'
import type { ApiReply } from './route.ts'

export type Header = readonly [name: string, value: string]

/** A response ready to be written. `body` is null if there is none (204, preflight). */
export interface HttpResponse {
  status: number
  headers: readonly Header[]
  body: Buffer | null
  /** The encoded status line and headers, if they are shared by many responses: see `encodedHead`. */
  head?: Buffer
}

const noSniff: Header = ['X-Content-Type-Options', 'nosniff']
const noStore: Header = ['Cache-Control', 'no-store']
const json: Header = ['Content-Type', 'application/json; charset=utf-8']

/** Headers of every JSON response, including errors. */
export const jsonHeaders: readonly Header[] = [json, noSniff, noStore]

/**
 * A Buffer body is sent unchanged; any other as JSON. The reply's own headers replace the common ones of the same
 * name.
 */
export function toResponse({ status, body, headers = [] }: ApiReply): HttpResponse {
  const own = new Set(headers.map(([name]) => name.toLowerCase()))
  const common = (body === undefined ? [noSniff, noStore] : jsonHeaders).filter(
    ([name]) => !own.has(name.toLowerCase()),
  )
  const all = [...common, ...headers]
  if (body === undefined) return { status, headers: all, body: null }
  return { status, headers: all, body: Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)) }
}

/**
 * An ApiError has its own response. Any other error is a bug of ours: it is logged with a request id, and the client
 * does not see its text.
 */
export function errorResponse(error: unknown, log: Logger, where: string): HttpResponse {
  return knownErrorResponse(asApiError(error, log, where))
}

/** The error that the client receives for any exception. */
export function asApiError(error: unknown, log: Logger, where: string): ApiError {
  return error instanceof ApiError ? error : unexpected(error, log, where)
}

export function knownErrorResponse(known: ApiError): HttpResponse {
  const headers = Object.entries(known.headers)
  if (known.code === 'unauthorized') headers.push(['WWW-Authenticate', 'Bearer'])
  return toResponse({ status: known.status, body: known.body(), headers })
}

function unexpected(error: unknown, log: Logger, where: string): ApiError {
  if (error instanceof StorageUnavailableError) {
    log.warn({ where, err: error }, 'http.storage_unavailable')
    if (error instanceof DeliveryElsewhereError) {
      const message = error.isUndone ? noOwner : ownerSilent
      return new ApiError('storage_unavailable', { message, headers: { 'Retry-After': '2' } })
    }
    const message = error instanceof DeliveryUnavailableError ? deliveryRestarts : undefined
    return new ApiError('storage_unavailable', { message, headers: { 'Retry-After': '5' } })
  }
  const requestId = randomUUID()
  log.error({ request_id: requestId, where, err: error }, 'http.failed')
  return new ApiError('server_error', { details: { request_id: requestId } })
}

const deliveryRestarts =
  'Delivery is being restarted, and it is unknown whether the command was executed. Check the lane, then try again.'

/** Messages of a cluster. */
const noOwner = 'No node delivers this pipe at the moment, and nothing was done. Try again.'
const ownerSilent =
  'The node that delivers this pipe does not respond, and it is unknown whether the command was executed. Check the lane, then try again.'

/** The status line and headers as in HTTP/1.1, without the version in front and the newline at the end. */
export function encodedHead(status: number, headers: readonly Header[]): Buffer {
  return Buffer.from(
    [statusLine(status), ...headers.map(([name, value]) => `${name}: ${value}`)].join('\r\n'),
  )
}

/** False if there is never a body, and a Content-Length would be wrong (RFC 9110, section 8.6). */
export function hasLength({ status }: Pick<HttpResponse, 'status'>): boolean {
  return status !== 204 && status !== 304
}

/** `404 Not Found`. */
export function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? 'Unknown'}`
}
