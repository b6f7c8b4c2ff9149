/** Answers as data, and the one place where an error becomes a status, headers and a body. */
import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { ApiError } from '../contract/errors.ts'
import type { Logger } from '../log.ts'
import type { ApiReply } from './route.ts'

/** An answer ready to be written: `body` is null where there is none (204, preflight). */
export interface HttpAnswer {
  status: number
  headers: Record<string, string>
  body: Buffer | string | null
}

/** On every response with a body, errors included. */
const commonHeaders: Record<string, string> = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
}
const jsonType = 'application/json; charset=utf-8'

/** A Buffer body is sent as it is; anything else as JSON. */
export function answerOf(reply: ApiReply): HttpAnswer {
  if (reply.body === undefined) {
    return { status: reply.status, headers: { ...commonHeaders, ...reply.headers }, body: null }
  }
  const body = Buffer.isBuffer(reply.body) ? reply.body : Buffer.from(JSON.stringify(reply.body))
  return {
    status: reply.status,
    headers: { ...commonHeaders, 'Content-Type': jsonType, ...reply.headers },
    body,
  }
}

/** ApiError → its own answer. Anything else is ours: logged with a request id, told to the client without its text. */
export function errorAnswer(error: unknown, log: Logger, where: string): HttpAnswer {
  if (error instanceof ApiError)
    return answerOf({ status: error.status, body: error.body(), headers: error.headers })
  const requestId = randomUUID()
  log.error({ request_id: requestId, where, err: error }, 'http.failed')
  const known = new ApiError('server_error', { details: { request_id: requestId } })
  return answerOf({ status: known.status, body: known.body() })
}

/** For text that is JSON already. */
export function jsonAnswer(status: number, text: string, headers: Record<string, string>): HttpAnswer {
  return { status, headers: { ...commonHeaders, 'Content-Type': jsonType, ...headers }, body: text }
}

/** `404 Not Found`. */
export function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? 'Unknown'}`
}
