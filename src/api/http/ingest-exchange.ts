/**
 * One request on the ingest path: what `accept.ts` may ask for. Its headers are read in one walk while the handler runs:
 * afterwards they may be gone, and only a walk shows those that are there twice.
 */
import type { ApiError } from '../../contract/errors.ts'
import type { Accepted, IngestRequest } from '../../ingest/accept.ts'
import type { BodyReceiver } from '../../ingest/body-source.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import { framingFault, noFraming, noteHeader } from './framing.ts'
import type { HttpResponse } from './response.ts'

/** Makes responses of what becomes of requests. */
export interface IngestResponder {
  accepted(exchange: IngestExchange, accepted: Accepted): void
  rejected(exchange: IngestExchange, error: unknown): void
}

export class IngestExchange implements IngestRequest {
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
  /** The fault in the request's head; such a request is rejected and its connection cut. */
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
          // Two of them are none: which one would a proxy have looked at?
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

/** `?idempotency_key=` is for requests that can have no header of their own (`sendBeacon`). '' where there are two. */
function keyOf(header: string | undefined, query: string): string | undefined {
  if (query === '') return header
  const given = new URLSearchParams(query).getAll('idempotency_key')
  if (given.length === 0) return header
  return given.length === 1 && header === undefined ? given[0] : ''
}

/** A list header may be spread over several lines. */
function joined(before: string, value: string): string {
  return before === '' ? value : `${before}, ${value}`
}
