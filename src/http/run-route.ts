/**
 * One request to a route of the table: framing → key → body → handler → answer. Authentication comes before anything
 * that costs: before the path's parameters are looked at and before a body is judged.
 */
import { ApiError, type ErrorCode, validationError } from '../contract/errors.ts'
import type { Authenticate } from '../ingest/bearer.ts'
import { tooLarge } from '../ingest/body.ts'
import { isTooDeep } from '../ingest/parse.ts'
import type { Logger } from '../log.ts'
import { requireKey } from './auth.ts'
import { Exchange } from './exchange.ts'
import { framingFault, noFraming, noteFraming } from './framing.ts'
import { answerOf, errorAnswer } from './reply.ts'
import type { ApiReply, Route } from './route.ts'
import type { RouteRequest, RouteResponse } from './uws.ts'

/** What serving a route needs besides the route. */
export interface RouteContext {
  authenticate: Authenticate
  log: Logger
  begin(): () => void
  isStopping(): boolean
}

const maxBodyBytes = 1024 * 1024

export function runRoute(route: Route, context: RouteContext, isHead: boolean) {
  const { log, begin, isStopping } = context
  return (request: RouteRequest, response: RouteResponse): void => {
    const exchange = new Exchange(response.raw, begin())
    const fault = faultOf(request)
    if (fault !== null) {
      exchange.answer(errorAnswer(new ApiError('bad_request', { message: fault }), log, route.path), true)
      return
    }
    reply(route, context, request, exchange).then(
      (given) => {
        if (given === null) return
        const answer = answerOf(given)
        if (given.onSent) exchange.answerTracked(answer, given.onSent)
        else if (isHead) exchange.answerHead(answer, isStopping())
        else exchange.answer(answer, isStopping())
      },
      (error) => exchange.answer(errorAnswer(error, log, route.operationId), isStopping()),
    )
  }
}

/** Null: the client went away. */
async function reply(
  route: Route,
  context: RouteContext,
  request: RouteRequest,
  exchange: Exchange,
): Promise<ApiReply | null> {
  const { headers } = request
  const announcedBytes = Number(headers['content-length'] ?? 0)
  const takesBody = route.method !== 'GET' && route.method !== 'DELETE' && hasBody(headers)
  // Asked for before the first wait, as the binding wants it; not looked at before the key is known to be good.
  const body = takesBody && announcedBytes <= maxBodyBytes ? exchange.body(maxBodyBytes) : null
  body?.catch(() => {})
  const key =
    route.auth === 'key' ? await requireKey(context.authenticate, headers.authorization ?? '') : null
  if (takesBody && body === null) throw tooLarge(maxBodyBytes)
  const bytes = await body
  if (body !== null && bytes === null) return null
  return route.handler({
    params: request.path_parameters,
    query: new URLSearchParams(request.path_query),
    headers,
    body: bytes === null ? undefined : parseBody(route, headers['content-type'], bytes),
    key,
    isAborted: () => exchange.isAborted,
  })
}

function hasBody(headers: Record<string, string>): boolean {
  return Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined
}

/** Undefined when there is none. Throws the route's error for what is not a JSON object. */
function parseBody(route: Route, contentType: string | undefined, bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  const type = contentType?.split(';')[0]?.trim().toLowerCase()
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
  const framing = noFraming()
  request.raw.forEach((name, value) => {
    noteFraming(framing, name, value)
  })
  return framingFault(framing)
}
