/**
 * A request, its body and the receiver of the body. The receiver uses calls instead of promises: a plain request waits
 * only for its body and for the buffer, and everything in between runs synchronously.
 */

import type { Enrichment } from './splice.ts'

/** Exactly one of `received`, `failed` and `gone` is called, once. None of them can throw. */
export interface BodyReceiver {
  readonly maxBytes: number
  /** The length in the headers; NaN without one. It limits the allocation but causes none by itself. */
  readonly announcedBytes: number
  /** Called before memory for the body is allocated. An error that it throws ends the body. */
  reserve(bytes: number): void
  /** The complete body. `isBorrowed`: its memory is reused as soon as this call returns. */
  received(body: Buffer, isBorrowed: boolean): void
  /** Called with `payload_too_large` when more than `maxBytes` arrived, or with the error that `reserve` threw. */
  failed(error: unknown): void
  /** The client has disconnected, or its response has been sent. */
  gone(): void
}

export interface BodySource {
  /**
   * Data that arrives without a receiver is lost, so call this once, before the handler first waits. It can call the
   * receiver before it returns.
   */
  receive(receiver: BodyReceiver): void
}

export type BodyLimit = Pick<BodyReceiver, 'maxBytes' | 'announcedBytes' | 'reserve'>

/**
 * Reads the body as a promise, for callers that wait anyway; null when the client disconnected. `admission`, such as a
 * key lookup, must settle before the body is used. The body arrives meanwhile; an error of `admission` takes precedence.
 */
export function wholeBody(source: BodySource, limit: BodyLimit, admission?: unknown): Promise<Buffer | null> {
  const whole = new Promise<Buffer | null>((resolve, reject) => {
    source.receive({
      ...limit,
      received: (body, isBorrowed) => resolve(isBorrowed ? Buffer.from(body) : body),
      failed: reject,
      gone: () => resolve(null),
    })
  })
  if (!(admission instanceof Promise)) return whole
  whole.catch(() => {})
  return admission.then(() => whole)
}

/** The interface of a request. The peer is valid until the first await. */
export interface IngestRequest extends BodySource {
  /** As in the URL path. */
  readonly pipeId: string
  readonly authorization: string
  readonly origin: string
  readonly contentType: string
  readonly contentEncoding: string
  /** The announced length; NaN when there is none. Use it to reject early, never to allocate. */
  readonly contentLength: number
  readonly forwardedFor: string
  /** Undefined when absent. */
  readonly idempotencyKey: string | undefined
  /** True: a repeat of the key can have another body. Absent: false. */
  readonly isKeyEnough?: boolean
  /** Members of this request, in addition to the enrichment of the pipe. Read once the body is received. */
  readonly members?: Enrichment | null
  /** True once the client has disconnected. */
  readonly isAborted: boolean
  /** The socket's peer, 4 or 16 bytes. */
  peer(): Uint8Array
  /** The message is in the buffer. */
  accepted(accepted: Accepted): void
  /** `error` is an ApiError or an internal error. */
  rejected(error: unknown): void
}

/** The message is in the buffer, from this request or from an earlier one with the same Idempotency-Key. */
export interface Accepted {
  pipeId: string
  pipeName: string
  recordCount: number
  /** Records that do not match the schema of the pipe and are parked. */
  parkedCount: number
  msgId: string
  /** The remainder of the pipe's rate; null when nothing was taken from it. */
  limit: LimitState | null
}

export type BodyFormat = 'json' | 'ndjson'
export type BodyEncoding = 'identity' | 'gzip' | 'deflate' | 'br'

/** The remainder of one limit, for the `X-RateLimit-…` headers. */
export interface LimitState {
  limit: number
  remaining: number
  /** Seconds until the full limit is available again. */
  resetSeconds: number
}
