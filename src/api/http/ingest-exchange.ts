/**
 * One request on the ingest path, as `accept.ts` uses it. Its headers are read in one pass while the handler runs:
 * later they can be gone, and only a full pass shows repeated ones.
 */
import type { ApiError } from '../../contract/errors.ts'
import type { Accepted, IngestRequest } from '../../ingest/accept.ts'
import type { BodyReceiver } from '../../ingest/body-source.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import { framingFault, noFraming, noteHeader } from './framing.ts'
import type { HttpResponse } from './response.ts'

/** Turns the results of requests into responses. */
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
function joined(before: string, value: string): string {
  return before === '' ? value : `${before}, ${value}`
}
