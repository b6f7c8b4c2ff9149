/**
 * One request on the ingest path: what `accept.ts` may ask for. Registered on uWebSockets itself (measured: 58–62 k
 * requests/s against 32–34 k through a hyper-express route).
 *
 * Headers are read while the handler runs, in one walk: afterwards the binding's request is gone, and only a walk shows
 * headers that stand there twice.
 */
import type { IngestRequest } from '../ingest/accept.ts'
import { Exchange } from './exchange.ts'
import { framingFault, noFraming, noteFraming } from './framing.ts'
import type { UwsRequest, UwsResponse } from './uws.ts'

export class IngestExchange extends Exchange implements IngestRequest {
  readonly pipeId: string
  authorization = ''
  origin = ''
  contentType = ''
  contentEncoding = ''
  contentLength = Number.NaN
  forwardedFor = ''
  idempotencyKey: string | undefined = undefined
  /** What is wrong with the request's framing; such a request is refused and its connection closed. */
  readonly fault: string | null

  constructor(res: UwsResponse, req: UwsRequest, onOver: () => void) {
    super(res, onOver)
    this.pipeId = req.getParameter(0)
    const framing = noFraming()
    req.forEach((name, value) => {
      switch (name) {
        case 'authorization':
          this.authorization = value
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
          noteFraming(framing, name, value)
          break
        case 'transfer-encoding':
          noteFraming(framing, name, value)
          break
        case 'x-forwarded-for':
          this.forwardedFor = joined(this.forwardedFor, value)
          break
        case 'idempotency-key':
          this.idempotencyKey = value
          break
      }
    })
    this.fault = framingFault(framing)
  }
}

/** A list header may be spread over several lines. */
function joined(before: string, value: string): string {
  return before === '' ? value : `${before}, ${value}`
}
