/** The ingest path, /v1/ingest/{pipe_id}: POST, GET, OPTIONS, and 405 for the rest. Runs straight on uWebSockets. */
import { ApiError } from '../contract/errors.ts'
import type { Ingest, IngestAnswer } from '../ingest/accept.ts'
import type { Logger } from '../log.ts'
import { corsHeaders, preflightHeaders } from './cors.ts'
import { IngestExchange } from './ingest-exchange.ts'
import { errorAnswer, type HttpAnswer } from './reply.ts'
import type { UwsApp, UwsHandler } from './uws.ts'

export const ingestPattern = '/v1/ingest/:pipe_id'

export interface IngestRoutesOptions {
  ingest: Ingest
  log: Logger
  /** Called when a request begins; what it returns, when it is over. */
  begin(): () => void
  /** True while the server is shutting down: connections are closed after their answer. */
  isStopping(): boolean
}

export function mountIngest(app: UwsApp, options: IngestRoutesOptions): void {
  app.post(ingestPattern, postHandler(options))
  app.get(ingestPattern, hintHandler(options, false))
  app.options(ingestPattern, preflightHandler(options))
  app.any(ingestPattern, otherHandler(options))
}

function postHandler({ ingest, log, begin, isStopping }: IngestRoutesOptions): UwsHandler {
  const finish = (exchange: IngestExchange, answer: IngestAnswer) => {
    exchange.answer(answer.status, headersOf(answer), Buffer.from(answer.body), isStopping())
  }
  return (res, req) => {
    const exchange = new IngestExchange(res, req, begin())
    const fault = exchange.framingError()
    if (fault !== null) return answerAndClose(exchange, errorAnswer(fault, log, ingestPattern))
    ingest.post(exchange).then(
      (answer) => {
        if (answer !== null) finish(exchange, answer)
      },
      (error) => answerAndClose(exchange, errorAnswer(error, log, ingestPattern)),
    )
  }
}

function hintHandler({ ingest, begin, isStopping }: IngestRoutesOptions, isHead: boolean): UwsHandler {
  return (res, req) => {
    const exchange = new IngestExchange(res, req, begin())
    const answer = ingest.hint(exchange.pipeId, exchange.origin)
    const body = Buffer.from(answer.body)
    if (isHead) exchange.answerHead(answer.status, headersOf(answer), body.length, isStopping())
    else exchange.answer(answer.status, headersOf(answer), body, isStopping())
  }
}

function preflightHandler({ ingest, begin, isStopping }: IngestRoutesOptions): UwsHandler {
  return (res, req) => {
    const exchange = new IngestExchange(res, req, begin())
    const answer = ingest.preflight(exchange.pipeId, exchange.origin)
    if (answer.body !== '') {
      exchange.answer(answer.status, headersOf(answer), Buffer.from(answer.body), isStopping())
      return
    }
    const headers = preflightHeaders(answer.allowOrigin, answer.keyRequired)
    exchange.answer(answer.status, headers, null, isStopping())
  }
}

/** HEAD is the hint without its body; any other method is told which ones there are. */
function otherHandler(options: IngestRoutesOptions): UwsHandler {
  const head = hintHandler(options, true)
  return (res, req) => {
    if (req.getMethod() === 'head') return head(res, req)
    const exchange = new IngestExchange(res, req, options.begin())
    const error = new ApiError('method_not_allowed', { headers: { Allow: 'POST, GET, HEAD, OPTIONS' } })
    const answer = errorAnswer(error, options.log, ingestPattern)
    exchange.answer(answer.status, Object.entries(answer.headers), answer.body, options.isStopping())
  }
}

function answerAndClose(exchange: IngestExchange, answer: HttpAnswer): void {
  exchange.answer(answer.status, Object.entries(answer.headers), answer.body, true)
}

function* headersOf(answer: IngestAnswer): Iterable<readonly [string, string]> {
  yield contentType
  yield noSniff
  yield noStore
  yield* corsHeaders(answer.allowOrigin)
  for (const name in answer.headers) yield [name, answer.headers[name]!]
}

const contentType = ['Content-Type', 'application/json; charset=utf-8'] as const
const noSniff = ['X-Content-Type-Options', 'nosniff'] as const
const noStore = ['Cache-Control', 'no-store'] as const
