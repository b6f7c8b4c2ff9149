/** Answers as data, and the one place where an error becomes a status, headers and a body. */
import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { ApiError } from '../contract/errors.ts'
import type { Logger } from '../log.ts'
import type { ApiReply } from './route.ts'

export type Header = readonly [name: string, value: string]

/** An answer ready to be written: `body` is null where there is none (204, preflight). */
export interface HttpAnswer {
  status: number
  headers: Iterable<Header>
  body: Buffer | null
}

/** On every response with a body, errors included. */
export const commonHeaders: readonly Header[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Cache-Control', 'no-store'],
]
export const jsonHeaders: readonly Header[] = [
  ['Content-Type', 'application/json; charset=utf-8'],
  ...commonHeaders,
]

/** A Buffer body is sent as it is, under the reply's own Content-Type; anything else as JSON. */
export function answerOf(reply: ApiReply): HttpAnswer {
  const { status, body, headers = {} } = reply
  const own = Object.entries(headers)
  if (body === undefined) return { status, headers: [...commonHeaders, ...own], body: null }
  const common = 'Content-Type' in headers ? commonHeaders : jsonHeaders
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
  return { status, headers: [...common, ...own], body: bytes }
}

/** ApiError → its own answer. Anything else is ours: logged with a request id, told to the client without its text. */
export function errorAnswer(error: unknown, log: Logger, where: string): HttpAnswer {
  if (error instanceof ApiError) {
    return answerOf({ status: error.status, body: error.body(), headers: error.headers })
  }
  const requestId = randomUUID()
  log.error({ request_id: requestId, where, err: error }, 'http.failed')
  const known = new ApiError('server_error', { details: { request_id: requestId } })
  return answerOf({ status: known.status, body: known.body() })
}

/** `404 Not Found`. */
export function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? 'Unknown'}`
}
