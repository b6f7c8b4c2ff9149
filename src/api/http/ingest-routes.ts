/**
 * The ingest path, /v1/ingest/{pipe_id}: POST, GET, HEAD, OPTIONS, and 405 for all other methods. The result or error
 * of ingest becomes a response here, with the CORS headers of the pipe. Errors have them as well, so that a page can
 * read why its request was rejected (docs/dev/contract.md#ingest-authentication).
 */
import { ApiError } from '../../contract/errors.ts'
import { rateLimitHeaders } from '../../ingest/admission.ts'
import type { Accepted, BodyReceiver, IngestRequest } from '../../ingest/body-source.ts'
import type { Ingest } from '../../ingest/ingest.ts'
import type { Logger } from '../../platform/log.ts'
import { counted } from '../../platform/quantities.ts'
import type { Handler, ServedPath } from './engine.ts'
import { type Exchange, framingFault, noFraming, noteHeader, type RequestHead } from './exchange.ts'
import {
  asApiError,
  encodedHead,
  type Header,
  type HttpResponse,
  jsonHeaders,
  knownErrorResponse,
  toResponse,
} from './response.ts'

const path = '/v1/ingest/{pipe_id}'

export interface IngestRoutesOptions {
  ingest: Ingest
  log: Logger
  /** True while the server is shutting down: connections are closed after their response. */
  isStopping(): boolean
}

export function ingestPath({ ingest, log, isStopping }: IngestRoutesOptions): ServedPath {
  const forOrigin = ({ pipeId, origin }: IngestExchange, response: HttpResponse) => {
    response.headers = withCors(response.headers, origin === '' ? null : ingest.allowOrigin(pipeId, origin))
    return response
  }
  const send = (exchange: IngestExchange, response: HttpResponse) => {
    exchange.send(forOrigin(exchange, response), isStopping())
  }
  const failed = (error: unknown) => {
    const known = asApiError(error, log, path)
    ingest.answeredWith(known.code)
    return knownErrorResponse(known)
  }
  const responder: IngestResponder = {
    accepted: (exchange, accepted) => {
      if (accepted.limit === null && exchange.origin === '') {
        exchange.send(plainAccepted202(accepted), isStopping())
      } else send(exchange, accepted202(accepted))
    },
    rejected: (exchange, error) => send(exchange, failed(error)),
  }
  const handle =
    (serve: (exchange: IngestExchange) => void): Handler =>
    (head, raw) => {
      const exchange = new IngestExchange(head, raw, responder)
      try {
        if (exchange.fault === null) return serve(exchange)
        exchange.sendAndCut(forOrigin(exchange, failed(exchange.fault)))
      } catch (error) {
        responder.rejected(exchange, error)
      }
    }

  const post = handle((exchange) => ingest.post(exchange))
  const hint = handle((exchange) => {
    send(exchange, toResponse({ status: 200, body: ingest.hint(exchange.pipeId) }))
  })
  const preflight = handle((exchange) => {
    const { allowOrigin, keyRequired } = ingest.preflight(exchange.pipeId, exchange.origin)
    const status = exchange.origin === '' ? 400 : allowOrigin === null ? 403 : 204
    send(exchange, { status, headers: status === 204 ? preflightHeaders(keyRequired) : [], body: null })
  })
  const rest = handle(() => {
    throw new ApiError('method_not_allowed', { headers: { Allow: 'POST, GET, HEAD, OPTIONS' } })
  })
  const methods = new Map([
    ['POST', post],
    ['GET', hint],
    ['HEAD', hint],
    ['OPTIONS', preflight],
  ])
  return { path, methods, rest, isHot: true }
}

export function accepted202(accepted: Accepted): HttpResponse {
  const { limit } = accepted
  const headers = limit === null ? jsonHeaders : [...jsonHeaders, ...Object.entries(rateLimitHeaders(limit))]
  return { status: 202, headers, body: acceptedBody(accepted) }
}

/** The most common response: to a server, from a pipe without limits. Its head is always the same. */
function plainAccepted202(accepted: Accepted): HttpResponse {
  return { status: 202, headers: jsonWithoutOrigin, head: plainAcceptedHead, body: acceptedBody(accepted) }
}

/**
 * The text is concatenated because this is the hot path. Nothing in it needs escaping (a pipe's name has only
 * letters, digits, `-` and `_`).
 */
function acceptedBody(accepted: Accepted): Buffer {
  const { pipeId, pipeName, recordCount, parkedCount, msgId } = accepted
  if (parkedCount > 0) return separatedBody(accepted)
  const message = recordCount === 1 ? '1 record stored.' : `${recordCount} records stored.`
  return Buffer.from(
    `{"accepted":true,"pipe_id":"${pipeId}","pipe_name":"${pipeName}","records_count":${recordCount},"msg_id":"${msgId}","message":"${message}"}`,
  )
}

/** Some or all of the records are parked. */
function separatedBody({ pipeId, pipeName, recordCount, parkedCount, msgId }: Accepted): Buffer {
  const stored = recordCount === 0 ? '' : `${counted(recordCount, 'record')} stored, `
  const message = `${stored}${counted(parkedCount, 'record')} parked, because they do not match the schema of the pipe.`
  return Buffer.from(
    JSON.stringify({
      ...{ accepted: true, pipe_id: pipeId, pipe_name: pipeName, records_count: recordCount },
      ...{ parked_records: parkedCount, msg_id: msgId, message },
    }),
  )
}

/** This header is also sent without an Origin in the request: the response depends on it. */
const varyByOrigin: Header = ['Vary', 'Origin']
/** The headers of most responses, built once. */
const jsonWithoutOrigin: readonly Header[] = [...jsonHeaders, varyByOrigin]
const plainAcceptedHead = encodedHead(202, jsonWithoutOrigin)
const exposed: Header = [
  'Access-Control-Expose-Headers',
  'Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset',
]
const maxAge: Header = ['Access-Control-Max-Age', '7200']

/** `allowOrigin`: the request's own Origin after the check, never `*`. Null: not allowed. */
function withCors(headers: readonly Header[], allowOrigin: string | null): readonly Header[] {
  if (allowOrigin !== null)
    return [...headers, varyByOrigin, ['Access-Control-Allow-Origin', allowOrigin], exposed, maxAge]
  return [...headers, varyByOrigin]
}

function preflightHeaders(keyRequired: boolean): readonly Header[] {
  const allowed = ['Content-Type', 'Content-Encoding', 'Idempotency-Key']
  if (keyRequired) allowed.push('Authorization')
  return [
    ['Access-Control-Allow-Methods', 'POST, GET, OPTIONS'],
    ['Access-Control-Allow-Headers', allowed.join(', ')],
  ]
}

/** Turns the results of requests into responses. */
interface IngestResponder {
  accepted(exchange: IngestExchange, accepted: Accepted): void
  rejected(exchange: IngestExchange, error: unknown): void
}

/**
 * One request on the ingest path, as `accept.ts` uses it. Its headers are read in one pass while the handler runs:
 * later they can be gone, and only a full pass shows repeated ones.
 */
class IngestExchange implements IngestRequest {
  readonly #exchange: Exchange
  readonly #responder: IngestResponder
  readonly pipeId: string
  authorization = ''
  origin = ''
  contentType = ''
  contentEncoding = ''
  contentLength = Number.NaN
  forwardedFor = ''
  idempotencyKey: string | undefined = undefined
  /** The fault in the request's head. A request with one is rejected and its connection cut. */
  readonly fault: ApiError | null

  constructor(head: RequestHead, exchange: Exchange, responder: IngestResponder) {
    this.#exchange = exchange
    this.#responder = responder
    this.pipeId = head.param('pipe_id')
    const framing = noFraming()
    head.eachHeader((name, value) => {
      noteHeader(framing, name, value)
      switch (name) {
        case 'authorization':
          // With two of them, none counts: a proxy in front may have checked the other one.
          this.authorization = framing.authorizations > 1 ? '' : value
          break
        case 'origin':
          this.origin = value
          break
        case 'content-type':
          this.contentType = value
          break
        case 'content-encoding':
          this.contentEncoding = joined(this.contentEncoding, value)
          break
        case 'content-length':
          this.contentLength = Number(value)
          break
        case 'x-forwarded-for':
          this.forwardedFor = joined(this.forwardedFor, value)
          break
        case 'idempotency-key':
          this.idempotencyKey = value
          break
      }
    })
    this.idempotencyKey = keyOf(this.idempotencyKey, head.query)
    this.fault = framingFault(framing)
  }

  get isAborted(): boolean {
    return this.#exchange.isAborted
  }

  peer(): Uint8Array {
    return this.#exchange.peer()
  }

  receive(receiver: BodyReceiver): void {
    this.#exchange.receive(receiver)
  }

  accepted(accepted: Accepted): void {
    this.#responder.accepted(this, accepted)
  }

  rejected(error: unknown): void {
    this.#responder.rejected(this, error)
  }

  send(response: HttpResponse, closeConnection: boolean): void {
    this.#exchange.send(response, closeConnection)
  }

  sendAndCut(response: HttpResponse): void {
    this.#exchange.sendAndCut(response)
  }
}

/**
 * `?idempotency_key=` is for requests that cannot set a header (`sendBeacon`). Returns an empty string, which is not
 * a valid key, if the key is given twice.
 */
function keyOf(header: string | undefined, query: string): string | undefined {
  if (query === '') return header
  const given = new URLSearchParams(query).getAll('idempotency_key')
  if (given.length === 0) return header
  return given.length === 1 && header === undefined ? given[0] : ''
}

/** A header with a list can be spread over several lines. */
export function joined(before: string, value: string): string {
  return before === '' ? value : `${before}, ${value}`
}
