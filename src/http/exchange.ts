/**
 * What serving a request needs of the HTTP library beneath: its head, its body, one response. Each engine
 * (`engine.ts`) has its own; everything above knows these alone.
 *
 *   open ──send…──▶ over ◀──client gone── open
 */
import type { HttpResponse } from './response.ts'

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

export interface BodyLimit {
  maxBytes: number
  /** As the headers say; NaN when they do not. Nothing is allocated on it, but no more than it either. */
  announcedBytes: number
  /** Called with the memory that is about to be allocated for the body; what it throws ends the body. */
  reserve(bytes: number): void
}

export interface Exchange {
  /** True once the client has gone. */
  readonly isAborted: boolean
  /** Calls it once, should the client go before its response. At most one listener. */
  onGone(listener: () => void): void
  /** The socket's peer, 4 or 16 bytes; empty when it is not known. Only while the exchange is open. */
  peer(): Uint8Array
  /**
   * The body as sent; null when the client went away. Rejects with `payload_too_large` once more has come, and with what
   * `reserve` throws. What arrives while nobody collects is lost, so this is called once and before the handler first
   * waits. What has to be waited for before the body may be used, such as the look-up of a key, is `admission`: the
   * body is collected meanwhile, and its error comes first.
   */
  body(limit: BodyLimit, admission?: unknown): Promise<Buffer | null>
  /** Does nothing once over. A body that is still coming in is read and dropped, so that clients see the response. */
  send(response: HttpResponse, closeConnection: boolean): void
  /** The response, and the end of the connection: nothing that the client sent after this request is executed. */
  sendAndCut(response: HttpResponse): void
  /** `onSent` once: true when the whole response went to the socket, false when the client went away before. */
  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void
}

/** `collected` once `admission` has come, which may be no promise at all. */
export function admitted(collected: Promise<Buffer | null>, admission: unknown): Promise<Buffer | null> {
  if (!(admission instanceof Promise)) return collected
  collected.catch(() => {})
  return admission.then(() => collected)
}
