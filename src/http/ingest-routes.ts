/** The ingest path, /v1/ingest/{pipe_id}: POST, GET, OPTIONS, and 405 for the rest. Runs straight on uWebSockets. */
import { ApiError } from '../contract/errors.ts'
import type { Ingest, IngestAnswer } from '../ingest/accept.ts'
import type { Logger } from '../log.ts'
import { corsHeaders, preflightHeaders } from './cors.ts'
import { IngestExchange } from './ingest-exchange.ts'
import { errorAnswer, type Header, type HttpAnswer, jsonHeaders } from './reply.ts'
import type { UwsApp, UwsHandler } from './uws.ts'

const pattern = '/v1/ingest/:pipe_id'

export interface IngestRoutesOptions {
  ingest: Ingest
  log: Logger
  /** Called when a request begins; what it returns, when it is over. */
  begin(): () => void
  /** True while the server is shutting down: connections are closed after their answer. */
  isStopping(): boolean
}

export function mountIngest(app: UwsApp, options: IngestRoutesOptions): void {
  const { ingest, log, begin, isStopping } = options
  const opened =
    (handle: (exchange: IngestExchange) => void): UwsHandler =>
    (res, req) => {
      const exchange = new IngestExchange(res, req, begin())
      if (exchange.fault === null) return handle(exchange)
      exchange.answer(
        errorAnswer(new ApiError('bad_request', { message: exchange.fault }), log, pattern),
        true,
      )
    }

  const post = opened((exchange) => {
    ingest.post(exchange).then(
      (answer) => {
        if (answer !== null) exchange.answer(httpAnswer(answer), isStopping())
      },
      (error) => exchange.answer(errorAnswer(error, log, pattern), true),
    )
  })
  const hint = opened((exchange) => {
    exchange.answer(httpAnswer(ingest.hint(exchange.pipeId, exchange.origin)), isStopping())
  })
  const head = opened((exchange) => {
    exchange.answerHead(httpAnswer(ingest.hint(exchange.pipeId, exchange.origin)), isStopping())
  })
  const preflight = opened((exchange) => {
    const { answer, keyRequired } = ingest.preflight(exchange.pipeId, exchange.origin)
    const headers = preflightHeaders(answer.allowOrigin, keyRequired)
    const http = answer.body === '' ? { status: answer.status, headers, body: null } : httpAnswer(answer)
    exchange.answer(http, isStopping())
  })
  const refuse = opened((exchange) => {
    const error = new ApiError('method_not_allowed', { headers: { Allow: 'POST, GET, HEAD, OPTIONS' } })
    exchange.answer(errorAnswer(error, log, pattern), isStopping())
  })

  app.post(pattern, post)
  app.get(pattern, hint)
  app.head(pattern, head)
  app.options(pattern, preflight)
  app.any(pattern, refuse)
}

function httpAnswer(answer: IngestAnswer): HttpAnswer {
  return { status: answer.status, headers: headersOf(answer), body: Buffer.from(answer.body) }
}

function* headersOf(answer: IngestAnswer): Iterable<Header> {
  yield* jsonHeaders
  yield* corsHeaders(answer.allowOrigin)
  for (const name in answer.headers) yield [name, answer.headers[name]!]
}
