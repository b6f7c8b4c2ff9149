/**
 * One request to a route of the table: framing → key → body → handler → answer. Authentication comes before anything
 * that costs: before the path's parameters are looked at and before the body is read.
 */
import { ApiError, type ErrorCode, validationError } from '../contract/errors.ts'
import type { Authenticate } from '../ingest/bearer.ts'
import { isTooDeep } from '../ingest/parse.ts'
import type { Logger } from '../log.ts'
import { requireKey } from './auth.ts'
import { framingFault } from './framing.ts'
import { readBody } from './read-body.ts'
import { answerOf, errorAnswer, type HttpAnswer, statusLine } from './reply.ts'
import type { ApiReply, Route } from './route.ts'
import type { RouteRequest, RouteResponse } from './uws.ts'

/** What serving a route needs besides the route. */
export interface Exchange {
  authenticate: Authenticate
  log: Logger
  begin(): () => void
  isStopping(): boolean
}

const maxBodyBytes = 1024 * 1024

export function runRoute(route: Route, exchange: Exchange, isHead: boolean) {
  return (request: RouteRequest, response: RouteResponse): void => {
    const end = onceOver(response, exchange.begin())
    const fault = faultOf(request)
    if (fault !== null) {
      const answer = errorAnswer(new ApiError('bad_request', { message: fault }), exchange.log, route.path)
      writeAnswer(response, answer, { isHead, closeConnection: true })
      end()
      return
    }
    reply(route, exchange, request, response).then(
      (given) => {
        const closeConnection = exchange.isStopping()
        if (given.onSent) sendTracked(response, answerOf(given), given.onSent, closeConnection)
        else writeAnswer(response, answerOf(given), { isHead, closeConnection })
        end()
      },
      (error) => {
        const answer = errorAnswer(error, exchange.log, route.operationId)
        writeAnswer(response, answer, { isHead, closeConnection: exchange.isStopping() })
        end()
      },
    )
  }
}

async function reply(
  route: Route,
  exchange: Exchange,
  request: RouteRequest,
  response: RouteResponse,
): Promise<ApiReply> {
  const { headers } = request
  const key =
    route.auth === 'key' ? await requireKey(exchange.authenticate, headers.authorization ?? '') : null
  const takesBody = route.method !== 'GET' && route.method !== 'DELETE'
  const body = takesBody ? await readJson(route, request, response) : undefined
  return route.handler({
    params: request.path_parameters,
    query: new URLSearchParams(request.path_query),
    headers,
    body,
    key,
    isAborted: () => response.aborted,
  })
}

/** Undefined when there is no body. Throws `payload_too_large`, or the route's error for what is not a JSON object. */
async function readJson(route: Route, request: RouteRequest, response: RouteResponse): Promise<unknown> {
  const bytes = await readBody(request, response, maxBodyBytes)
  if (bytes.length === 0) return undefined
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  if (type !== undefined && type !== '' && type !== 'application/json') {
    throw bodyError(route.bodyError, 'Content-Type must be application/json.')
  }
  if (isTooDeep(bytes)) throw bodyError(route.bodyError, 'The body is nested too deeply.')
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw bodyError(route.bodyError, 'The body is not valid JSON.')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw bodyError(route.bodyError, 'The body must be a JSON object.')
  }
  return value
}

function bodyError(code: ErrorCode | undefined, complaint: string): ApiError {
  return code === undefined ? validationError({ '': complaint }) : new ApiError(code)
}

function faultOf(request: RouteRequest): string | null {
  const framing = { contentLengths: 0, contentLength: '', transferEncodings: 0, transferEncoding: '' }
  request.raw.forEach((name, value) => {
    if (name === 'content-length') {
      framing.contentLengths++
      framing.contentLength = value
    } else if (name === 'transfer-encoding') {
      framing.transferEncodings++
      framing.transferEncoding = value
    }
  })
  return framingFault(framing)
}

/** `end` once, also when the client goes away. */
function onceOver(response: RouteResponse, end: () => void): () => void {
  let isOver = false
  const once = () => {
    if (isOver) return
    isOver = true
    end()
  }
  response.once('abort', once)
  return once
}

/** Trap: `send` waits for the rest of a request body that nobody reads; one that never ends is cut off. */
const unreadBodyMs = 5000

export function writeAnswer(
  response: RouteResponse,
  answer: HttpAnswer,
  { isHead, closeConnection }: { isHead: boolean; closeConnection: boolean },
): void {
  if (response.completed) return
  response.status(answer.status)
  for (const [name, value] of Object.entries(answer.headers)) response.header(name, value)
  // A Buffer, never a string: some bindings write strings as Latin-1.
  const body = answer.body === null ? null : Buffer.from(answer.body)
  if (isHead && body !== null) response.header('content-length', String(body.length))
  response.send(isHead ? undefined : (body ?? undefined), closeConnection)
  if (response.completed) return
  const timer = setTimeout(() => {
    if (!response.completed) response.close()
  }, unreadBodyMs)
  timer.unref()
}

/** Tells whether the whole response went to the socket: `tryEnd` until it has taken everything, or the client is gone. */
function sendTracked(
  response: RouteResponse,
  answer: HttpAnswer,
  onSent: (wasSent: boolean) => void,
  closeConnection: boolean,
): void {
  let isOver = false
  const over = (wasSent: boolean) => {
    if (isOver) return
    isOver = true
    onSent(wasSent)
  }
  if (response.completed) {
    over(false)
    return
  }
  response.once('abort', () => over(false))
  const { raw } = response
  const body = Buffer.from(answer.body ?? '')
  raw.cork(() => {
    raw.writeStatus(statusLine(answer.status))
    for (const [name, value] of Object.entries(answer.headers)) raw.writeHeader(name, value)
    if (closeConnection) raw.writeHeader('Connection', 'close')
    const start = raw.getWriteOffset()
    const [, isDone] = raw.tryEnd(body, body.length)
    if (isDone) return over(true)
    raw.onWritable((offset) => {
      const [isTaken, isComplete] = raw.tryEnd(body.subarray(offset - start), body.length)
      if (isComplete) over(true)
      return isTaken
    })
  })
}
