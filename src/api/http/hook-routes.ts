/**
 * The hook paths, /v1/hooks/{pipe_id} and /v1/hooks/{pipe_id}/{token}: POST for webhooks of a pipe's source, GET for its
 * challenges, 405 for all other methods. There are no CORS headers, because no browser sends webhooks. The token is not
 * written to any log.
 */
import { ApiError } from '../../contract/errors.ts'
import type { SourceType } from '../../contract/source-words.ts'
import type { Accepted, BodyReceiver } from '../../ingest/body-source.ts'
import type { HookAnswer, IncomingHook } from '../../ingest/hooks/receive.ts'
import type { Ingest } from '../../ingest/ingest.ts'
import type { Logger } from '../../platform/log.ts'
import type { Handler, ServedPath } from './engine.ts'
import { type Exchange, framingFault, noFraming, noteHeader, type RequestHead } from './exchange.ts'
import { accepted202, joined } from './ingest-routes.ts'
import { asApiError, type HttpResponse, jsonHeaders, knownErrorResponse, toResponse } from './response.ts'

const paths = ['/v1/hooks/{pipe_id}', '/v1/hooks/{pipe_id}/{token}'] as const

export interface HookRoutesOptions {
  ingest: Pick<Ingest, 'hook' | 'answeredWith'>
  log: Logger
  /** True while the server is shutting down: connections are closed after their response. */
  isStopping(): boolean
}

export function hookPaths({ ingest, log, isStopping }: HookRoutesOptions): ServedPath[] {
  const failed = (error: unknown): HttpResponse => {
    const known = asApiError(error, log, paths[0])
    ingest.answeredWith(known.code)
    return knownErrorResponse(known)
  }
  const responder: HookResponder = {
    respond: (exchange, response) => exchange.send(response, isStopping()),
    failed,
  }
  const handle =
    (method: 'GET' | 'POST'): Handler =>
    (head, exchange) => {
      const hook = new HookExchange(method, head, exchange, responder)
      if (hook.fault !== null) exchange.sendAndCut(failed(hook.fault))
      else ingest.hook(hook)
    }
  const rest: Handler = (head, exchange) => {
    const { fault } = new HookExchange('GET', head, exchange, responder)
    const error = fault ?? new ApiError('method_not_allowed', { headers: { Allow: 'POST, GET, HEAD' } })
    if (fault === null) exchange.send(failed(error), isStopping())
    else exchange.sendAndCut(failed(error))
  }
  const methods = new Map([
    ['POST', handle('POST')],
    ['GET', handle('GET')],
    ['HEAD', handle('GET')],
  ])
  return paths.map((path) => ({ path, methods, rest }))
}

/** Turns the results of requests into responses. */
interface HookResponder {
  respond(exchange: Exchange, response: HttpResponse): void
  failed(error: unknown): HttpResponse
}

/**
 * One request, as `ingest/hooks/receive.ts` uses it. Its headers are copied while the handler runs: later they can be gone,
 * and the signature is checked after the body has arrived.
 */
class HookExchange implements IncomingHook {
  readonly method: 'GET' | 'POST'
  readonly pipeId: string
  readonly token: string | undefined
  readonly query: string
  /** The fault in the request's head. A request with one is rejected and its connection cut. */
  readonly fault: ApiError | null
  readonly #exchange: Exchange
  readonly #responder: HookResponder
  readonly #headers = new Map<string, string>()

  constructor(method: 'GET' | 'POST', head: RequestHead, exchange: Exchange, responder: HookResponder) {
    this.method = method
    this.pipeId = head.param('pipe_id')
    this.token = head.param('token') || undefined
    this.query = head.query
    this.#exchange = exchange
    this.#responder = responder
    const framing = noFraming()
    head.eachHeader((name, value) => {
      noteHeader(framing, name, value)
      this.#headers.set(name, joined(this.#headers.get(name) ?? '', value))
    })
    // With two of them, none counts: a proxy in front may have checked the other one.
    if (framing.authorizations > 1) this.#headers.delete('authorization')
    this.fault = framingFault(framing)
  }

  get contentLength(): number {
    return Number(this.#headers.get('content-length') ?? Number.NaN)
  }

  get forwardedFor(): string {
    return this.#headers.get('x-forwarded-for') ?? ''
  }

  get isAborted(): boolean {
    return this.#exchange.isAborted
  }

  header(name: string): string | undefined {
    return this.#headers.get(name)
  }

  peer(): Uint8Array {
    return this.#exchange.peer()
  }

  receive(receiver: BodyReceiver): void {
    this.#exchange.receive(receiver)
  }

  accepted(accepted: Accepted, source: SourceType): void {
    this.#responder.respond(this.#exchange, acceptedBy(source) ?? accepted202(accepted))
  }

  answered({ status, type, body }: HookAnswer): void {
    // The body is text of the request. toResponse adds nosniff.
    const headers = [['Content-Type', type]] as const
    this.#responder.respond(this.#exchange, toResponse({ status, headers, body: Buffer.from(body) }))
  }

  rejected(error: unknown): void {
    this.#responder.respond(this.#exchange, this.#responder.failed(error))
  }
}

/**
 * The providers that read the body of the response: Slack shows it to the person who sent a command, and Twilio reports
 * anything but its XML as an error. Null: the usual 202.
 */
function acceptedBy(source: SourceType): HttpResponse | null {
  const [json, ...others] = jsonHeaders
  if (json === undefined) return null
  if (source === 'slack') return { status: 200, headers: others, body: Buffer.alloc(0) }
  if (source !== 'twilio') return null
  const xml = ['Content-Type', 'text/xml; charset=utf-8'] as const
  return { status: 200, headers: [xml, ...others], body: Buffer.from('<Response></Response>') }
}
