/**
 * A request's body and its receiver. The receiver uses calls instead of promises: a plain request waits only for its
 * body and for the buffer, and everything in between runs synchronously.
 */

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
