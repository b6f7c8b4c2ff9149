/**
 * The port of one request to the HTTP library below: its head, its body, one response. Each engine (`engine.ts`) has
 * its own; all code above uses only these.
 *
 *   open ──send…──▶ over ◀──client gone── open
 */
import type { BodySource } from '../../ingest/body-source.ts'
import type { HttpResponse } from './response.ts'
import type { ResponseStream } from './response-stream.ts'

/** Readable until the handler first returns: an engine may keep nothing of it. */
export interface RequestHead {
  readonly method: string
  /** Without the question mark; empty where there is none. */
  readonly query: string
  /** As in the path, not decoded; empty where the path has none of that name. */
  param(name: string): string
  /** Every header in its order, one that is there twice twice; names in lower case. */
  eachHeader(take: (name: string, value: string) => void): void
}

export interface Exchange extends BodySource {
  /** True once the client has gone. */
  readonly isAborted: boolean
  /** Calls it once, should the client go before its response. At most one listener. */
  onGone(listener: () => void): void
  /** The socket's peer, 4 or 16 bytes; empty when it is not known. Only while the exchange is open. */
  peer(): Uint8Array
  /** Does nothing once over. A body that is still coming in is read and dropped, so that clients see the response. */
  send(response: HttpResponse, closeConnection: boolean): void
  /** The response, and the end of the connection: nothing that the client sent after this request is executed. */
  sendAndCut(response: HttpResponse): void
  /** `onSent` once: true when the whole response went to the socket, false when the client went away before. */
  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void
  /** The head of a response; its body follows. A client that takes nothing of a piece for half a minute is cut off. */
  stream(response: HttpResponse): ResponseStream
}
