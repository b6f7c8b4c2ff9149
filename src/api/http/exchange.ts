/**
 * The port of one request to the HTTP library below: its head, its body and one response. Each engine (`engine.ts`)
 * implements it; all code above uses only these types.
 *
 *   open ──send…──▶ over ◀──client disconnected── open
 */
import type { BodySource } from '../../ingest/body-source.ts'
import type { HttpResponse } from './response.ts'
import type { ResponseStream } from './response-stream.ts'

/** Readable until the handler first returns: an engine does not have to keep it longer. */
export interface RequestHead {
  readonly method: string
  /** Without the question mark. Empty if there is no query. */
  readonly query: string
  /** As in the path, not decoded. Empty if the path has no such parameter. */
  param(name: string): string
  /** Calls `take` for every header in order, repeated ones each time. Names are in lower case. */
  eachHeader(take: (name: string, value: string) => void): void
}

export interface Exchange extends BodySource {
  /** True once the client has disconnected. */
  readonly isAborted: boolean
  /** Calls the listener once if the client disconnects before its response. At most one listener. */
  onGone(listener: () => void): void
  /**
   * The address of the socket's peer, 4 or 16 bytes. Empty if it is not known. Only valid while the exchange is open.
   */
  peer(): Uint8Array
  /**
   * Does nothing once the exchange is over. A body that is still arriving is read and dropped, so that the client
   * sees the response.
   */
  send(response: HttpResponse, closeConnection: boolean): void
  /** Sends the response and closes the connection: nothing that the client sent after this request is executed. */
  sendAndCut(response: HttpResponse): void
  /**
   * Calls `onSent` once: true when the whole response went to the socket, false when the client disconnected before.
   */
  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void
  /**
   * Sends the head of a response whose body follows piece by piece. A client that reads nothing of a piece for 30
   * seconds is disconnected.
   */
  stream(response: HttpResponse): ResponseStream
}
