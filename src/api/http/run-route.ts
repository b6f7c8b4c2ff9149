/**
 * Runs one request to a route of the table: framing → key or session → body → handler → response. Authentication
 * comes before everything expensive: before the parameters of the path are read and before a body is checked.
 */
import assert from 'node:assert'
import { ApiError, type ErrorCode, payloadTooLarge, validationError } from '../../contract/errors.ts'
import { type BodyLimits, smallBody } from '../../contract/operation.ts'
import type { Principal } from '../../contract/principal.ts'
import { wholeBody } from '../../ingest/body-source.ts'
import type { ClientIp } from '../../ingest/client-ip.ts'
import { type Authenticate, admit } from '../../ingest/directory/directory-cache.ts'
import { scanJson } from '../../ingest/parse.ts'
import type { Logger } from '../../platform/log.ts'
import { type DashboardGate, dashboardHeaders } from './dashboard-gate.ts'
import type { Handler } from './engine.ts'
import {
  type Exchange,
  type Framing,
  framingFault,
  noFraming,
  noteHeader,
  type RequestHead,
} from './exchange.ts'
import type { ManagementBudget } from './management-budget.ts'
import { errorResponse, type HttpResponse, knownErrorResponse, toResponse } from './response.ts'
import type { ApiReply, Route, Visit } from './route.ts'

/** The dependencies of every route. */
export interface RouteContext {
  authenticate: Authenticate
  /** Without one, no route can be for browsers. */
  gate?: DashboardGate | null
  /** Without one, no handler knows the address of the client. */
  clientIp?: Pick<ClientIp, 'of'> | null
  /** The budget of requests with a key to the management API. Without one, there is no limit. */
  budget?: ManagementBudget | null
  log: Logger
  /** True while the server is shutting down: connections are closed after their response. */
  isStopping(): boolean
}

const maxDepth = 100

export function runRoute(route: Route, context: RouteContext): Handler {
  const { log, isStopping } = context
  return guarded(context, (head, exchange, headers) => {
    const complete = completion(route, context, exchange, headers)
    if (isStopping() && usesStores(route)) {
      exchange.send(complete(knownErrorResponse(stopping('Nothing was done. Try again.'))), true)
      return
    }
    reply(route, context, { head, exchange, headers }).then(
      (given) => {
        if (given === null) return
        if (given.stream) given.stream(exchange.stream(complete(toResponse(given))), gone(exchange))
        else if (given.onSent) exchange.sendTracked(complete(toResponse(given)), given.onSent)
        else exchange.send(complete(toResponse(given)), isStopping())
      },
      (error) => {
        const apiError = isStopping() ? whileStopping(error, route, log) : error
        exchange.send(complete(errorResponse(apiError, log, route.operationId)), isStopping())
      },
    )
  })
}

/** Files and readiness are served until the end. These routes use the stores, which are being closed. */
function usesStores({ auth }: Route): boolean {
  return auth === 'key' || auth === 'session' || auth === 'form'
}

function stopping(outcome: string): ApiError {
  const message = `The service is stopping. ${outcome}`
  return new ApiError('storage_unavailable', { message, headers: { 'Retry-After': '2' } })
}

/** A store that the request used may have been closed while it ran. That is not a bug. */
function whileStopping(error: unknown, { operationId }: Route, log: Logger): ApiError {
  if (error instanceof ApiError) return error
  log.warn({ where: operationId, err: error }, 'http.interrupted')
  return stopping('It is unknown whether this was done. Check the resource, then try again.')
}

function gone(exchange: Exchange): Promise<void> {
  return new Promise((resolve) => {
    if (exchange.isAborted) resolve()
    else exchange.onGone(resolve)
  })
}

/** Adds the headers that every response to a browser has, errors included. */
function completion(
  route: Route,
  { gate }: RouteContext,
  exchange: Exchange,
  { byName }: Headers,
): (response: HttpResponse) => HttpResponse {
  if (gate == null || !isForBrowsers(route)) return (response) => response
  const common = dashboardHeaders(gate.isSecure(byName, exchange.peer()))
  return (response) => {
    const own = new Set(response.headers.map(([name]) => name.toLowerCase()))
    const missing = common.filter(([name]) => !own.has(name.toLowerCase()))
    return { ...response, headers: [...response.headers, ...missing] }
  }
}

function isForBrowsers({ auth }: Route): boolean {
  return auth === 'page' || auth === 'form' || auth === 'session'
}

interface Incoming {
  head: RequestHead
  exchange: Exchange
  headers: Headers
}

interface Headers {
  framing: Framing
  /** By lower-case name. The last value of a header that is repeated. */
  byName: Record<string, string>
}

/**
 * Checks every request first, including those of unknown paths and wrong methods. A request whose head cannot be
 * trusted gets a response, and its connection is closed.
 */
export function guarded(
  { log }: RouteContext,
  serve: (head: RequestHead, exchange: Exchange, headers: Headers) => void,
): Handler {
  return (head, exchange) => {
    const headers = readHeaders(head)
    const fault = framingFault(headers.framing)
    if (fault === null) serve(head, exchange, headers)
    else exchange.sendAndCut(errorResponse(fault, log, 'framing'))
  }
}

function readHeaders(head: RequestHead): Headers {
  const framing = noFraming()
  const byName: Record<string, string> = Object.create(null)
  head.eachHeader((name, value) => {
    noteHeader(framing, name, value)
    byName[name] = value
  })
  return { framing, byName }
}

/** Null: the client disconnected. */
async function reply(
  route: Route,
  context: RouteContext,
  { head, exchange, headers: { framing, byName: headers } }: Incoming,
): Promise<ApiReply | null> {
  // The head is read now, because after the first wait it can be gone.
  const params = paramsOf(route, head)
  const { method } = head
  const query = new URLSearchParams(head.query)
  // With two of them, none counts: a proxy in front may have checked the other one.
  const authorization = framing.authorizations > 1 ? '' : (headers.authorization ?? '')
  const peer = exchange.peer()
  const address = context.clientIp?.of(peer, () => headers['x-forwarded-for'] ?? '') ?? null
  const limits = route.bodyLimits ?? smallBody
  const takesBody = route.method !== 'GET' && route.method !== 'DELETE' && hasBody(headers)
  const budget = route.auth === 'key' && route.surface === 'management' ? context.budget : null
  const afterKey = <P extends Principal | null>(principal: P) => {
    if (principal !== null) {
      requireRight(route, principal)
      budget?.require(principal.workspaceId)
    }
    if (takesBody && Number(headers['content-length']) > limits.bytes) throw payloadTooLarge(limits.bytes)
    return principal
  }
  const visit = visitOf(route, context, { method, headers, peer })
  const admission =
    route.auth === 'key'
      ? admit(context.authenticate, authorization, afterKey)
      : route.auth === 'session'
        ? admitSession(context, visit, head.method, headers).then(afterKey)
        : afterKey(null)
  const announcedBytes = Number(headers['content-length'])
  const bytes = takesBody
    ? await wholeBody(exchange, { maxBytes: limits.bytes, announcedBytes, reserve: () => {} }, admission)
    : undefined
  if (bytes === null) return null
  const principal = await admission
  const charge = principal === null ? undefined : budget?.meter(principal.workspaceId)
  charge?.()
  const given = await route.handler({
    params,
    query,
    headers,
    body: bytes === undefined ? undefined : parseBody(route, limits, headers['content-type'], bytes),
    ...(bytes === undefined ? {} : { bodyBytes: bytes }),
    principal,
    address,
    visit,
    isAborted: () => exchange.isAborted,
    isStillAdmitted: async () => {
      try {
        if (route.auth === 'key')
          requireRight(route, await admit(context.authenticate, authorization, (again) => again))
        else if (route.auth === 'session')
          requireRight(route, await admitSession(context, visit, method, headers))
        return true
      } catch (error) {
        return !(error instanceof ApiError) || !accessErrors.includes(error.code)
      }
    },
  })
  charge?.()
  return given
}

const accessErrors: readonly ErrorCode[] = ['unauthorized', 'session_required', 'forbidden']

/** Throws `forbidden`. */
function requireRight(
  { needs = 'read', isForBoundKeys = true }: Route,
  { may, pipeIds, by }: Principal,
): void {
  if (!may[needs]) {
    const message =
      by.kind === 'key'
        ? `This key lacks the scope ${needs}.`
        : 'This requires the role admin: your role can only read.'
    throw new ApiError('forbidden', { message })
  }
  if (pipeIds !== null && !isForBoundKeys) {
    throw new ApiError('forbidden', {
      message: 'This key is limited to some pipes: use a key for the whole workspace.',
    })
  }
}

function visitOf(
  route: Route,
  { gate }: RouteContext,
  {
    method,
    headers,
    peer,
  }: { method: string; headers: Record<string, string>; peer: ReturnType<Exchange['peer']> },
): Visit | null {
  if (!isForBrowsers(route)) return null
  assert(gate != null, `nothing guards ${route.path}`)
  return gate.visit(route, method, headers, peer)
}

async function admitSession(
  { gate }: RouteContext,
  visit: Visit | null,
  method: string,
  headers: Record<string, string>,
): Promise<Principal> {
  assert(gate != null && visit !== null)
  return await gate.admit(visit, method, headers)
}

function paramsOf({ path }: Route, head: RequestHead): Record<string, string> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
  return Object.fromEntries(names.map((name) => [name, head.param(name)]))
}

function hasBody(headers: Record<string, string>): boolean {
  return Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined
}

/** Undefined if there is no body. Throws the error of the route if the body is not a JSON object. */
function parseBody(
  route: Route,
  limits: BodyLimits,
  contentType: string | undefined,
  bytes: Buffer,
): unknown {
  if (bytes.length === 0) return undefined
  const type = contentType?.split(';')[0]?.trim().toLowerCase()
  if (type !== undefined && type !== '' && type !== 'application/json') {
    throw bodyError(route.bodyError, 'Content-Type must be application/json.')
  }
  // Values are counted before the body is parsed: the largest body can hold 350,000.
  if (valuesIn(bytes) > limits.values)
    throw bodyError(route.bodyError, `The body has more than ${limits.values} values.`)
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw bodyError(route.bodyError, 'The body is not valid JSON.')
  }
  if (isTooDeep(value)) throw bodyError(route.bodyError, 'The body is nested too deeply.')
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw bodyError(route.bodyError, 'The body must be a JSON object.')
  }
  return value
}

function valuesIn(bytes: Buffer): number {
  return scanJson(bytes, 0, bytes.length, { maxRecords: bytes.length, maxKeys: bytes.length }).values
}

/** JSON.parse handles any depth; the code that walks the value by recursion does not. */
function isTooDeep(value: unknown): boolean {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return true
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []))
  }
  return false
}

function bodyError(code: ErrorCode | undefined, complaint: string): ApiError {
  return code === undefined ? validationError({ '': complaint }) : new ApiError(code)
}
