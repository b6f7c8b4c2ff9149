/**
 * Forwards requests from an ingest thread to main, which serves everything except ingest. A request is sent as data,
 * its body in one piece once it is complete. The response carries the same number. Requests with a malformed key are
 * rejected here. They cost main nothing, and the connection is left in the same state as main would leave it for the
 * next request.
 */
import { ApiError } from '../../contract/errors.ts'
import { largestBodyBytes } from '../../contract/operation.ts'
import { wholeBody } from '../../ingest/body-source.ts'
import type { Caller } from '../../platform/thread-calls.ts'
import type { Handler, ServedPath } from '../http/engine.ts'
import type { Exchange, RequestHead } from '../http/exchange.ts'
import { errorResponse, type HttpResponse } from '../http/response.ts'
import type { ResponseStream } from '../http/response-stream.ts'
import { guarded, type RouteContext } from '../http/run-route.ts'
import type { ForwardedPath, ForwardedResponses, IngestReports, SendHow } from './protocol.ts'

export class Forwarding implements ForwardedResponses {
  readonly #main: Pick<Caller<IngestReports>, 'tell'>
  readonly #open = new Map<number, Exchange>()
  readonly #streams = new Map<number, ResponseStream>()
  #lastId = 0

  constructor(main: Pick<Caller<IngestReports>, 'tell'>) {
    this.#main = main
  }

  /** `context`: for requests that are rejected here. */
  paths(paths: readonly ForwardedPath[], context: RouteContext): ServedPath[] {
    return paths.map(({ path, methods, keyed }, index) => {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
      const forward = this.#handler(index, names)
      const withKey = requireKey(context, path, forward)
      return {
        path,
        methods: new Map(methods.map((method) => [method, keyed.includes(method) ? withKey : forward])),
        rest: forward,
      }
    })
  }

  get notFound(): Handler {
    return this.#handler(-1, [])
  }

  respond(id: number, how: SendHow, { status, headers, body }: HttpResponse): void {
    const exchange = this.#open.get(id)
    this.#open.delete(id)
    const sent = (wasSent: boolean) => this.#main.tell('sent', [id, wasSent])
    // The client has disconnected. Main was notified, but may have sent this response before that.
    if (exchange === undefined) {
      if (how === 'tracked') sent(false)
      return
    }
    const whole = body && Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    const response = { status, headers, body: whole }
    if (how === 'tracked') exchange.sendTracked(response, sent)
    else if (how === 'cut') exchange.sendAndCut(response)
    else exchange.send(response, how === 'last')
  }

  stream(id: number, { status, headers }: HttpResponse): void {
    const stream = this.#open.get(id)?.stream({ status, headers, body: null })
    if (stream !== undefined) this.#streams.set(id, stream)
  }

  piece(id: number, { buffer, byteOffset, byteLength }: Uint8Array): void {
    const written = this.#streams.get(id)?.write(Buffer.from(buffer, byteOffset, byteLength))
    void written?.then((isOpen) => isOpen && this.#main.tell('taken', [id]))
  }

  streamEnd(id: number): void {
    this.#open.delete(id)
    this.#streams.get(id)?.end()
    this.#streams.delete(id)
  }

  #handler(path: number, names: readonly string[]): Handler {
    return (head, exchange) => {
      const id = ++this.#lastId
      this.#open.set(id, exchange)
      exchange.onGone(() => {
        this.#streams.delete(id)
        if (this.#open.delete(id)) this.#main.tell('gone', [id])
      })
      const { headers, announcedBytes, hasBody } = headersOf(head)
      const params = names.map((name) => head.param(name))
      const { method, query } = head
      const forwarded = { method, query, params, headers, peer: exchange.peer(), hasBody }
      this.#main.tell('request', [id, path, forwarded])
      if (hasBody) this.#collect(id, exchange, announcedBytes)
    }
  }

  /**
   * Collects from the start, because bytes that arrive without a collector are lost. A response ends the collection.
   */
  #collect(id: number, exchange: Exchange, announcedBytes: number): void {
    wholeBody(exchange, { maxBytes: largestBodyBytes, announcedBytes, reserve: () => {} }).then(
      (body) => {
        const own = body === null ? null : new Uint8Array(body)
        this.#main.tell('body', [id, own], own === null ? [] : [own.buffer])
      },
      () => this.#main.tell('body', [id, 'too_large']),
    )
  }
}

/** Forwards a request whose key is still being looked up: main waits for the result. */
function requireKey(context: RouteContext, path: string, next: Handler): Handler {
  return guarded(context, (head, exchange, { framing, byName }) => {
    const authorization = framing.authorizations > 1 ? '' : (byName.authorization ?? '')
    const found = context.authenticate(authorization)
    if (found instanceof Promise) found.catch(() => {})
    if (found !== undefined) return next(head, exchange)
    const rejected = errorResponse(new ApiError('unauthorized'), context.log, path)
    exchange.send(rejected, context.isStopping())
  })
}

function headersOf(head: RequestHead) {
  const headers: [string, string][] = []
  let announcedBytes = Number.NaN
  let isChunked = false
  head.eachHeader((name, value) => {
    headers.push([name, value])
    if (name === 'content-length') announcedBytes = Number(value)
    else if (name === 'transfer-encoding') isChunked = true
  })
  const takesBody = head.method !== 'GET' && head.method !== 'HEAD' && head.method !== 'DELETE'
  return { headers, announcedBytes, hasBody: takesBody && (isChunked || announcedBytes > 0) }
}
