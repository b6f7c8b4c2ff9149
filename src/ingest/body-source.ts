/**
 * A request's body, and who takes it. It is handed over by a call and not by a promise: the plain request waits for its body
 * and for the buffer, and everything between the two runs in one go, where the bytes are.
 */

/** Exactly one of `received`, `failed` and `gone` is called, once. None of them may throw. */
export interface BodyReceiver {
  readonly maxBytes: number
  /** As the headers say; NaN when they do not. Nothing is allocated on it, but no more than it either. */
  readonly announcedBytes: number
  /** Called with the memory that is about to be taken for the body; what it throws ends the body. */
  reserve(bytes: number): void
  /** All of it. `isLent`: the memory is someone else's as soon as this returns. */
  received(body: Buffer, isLent: boolean): void
  /** With `payload_too_large` once more than `maxBytes` has come, and with what `reserve` threw. */
  failed(error: unknown): void
  /** The client has gone, or its response has been sent. */
  gone(): void
}

export interface BodySource {
  /**
   * Data that arrives while there is no receiver is lost, so this is called once and before the handler first waits.
   * It may call the receiver before it returns.
   */
  receive(receiver: BodyReceiver): void
}

export type BodyLimit = Pick<BodyReceiver, 'maxBytes' | 'announcedBytes' | 'reserve'>

/**
 * The body as a promise, for callers that wait anyway; null when the client went away. `admission` has to be settled
 * before the body may be used, such as the look-up of a key: the body arrives meanwhile, and the error of `admission`
 * comes first.
 */
export function wholeBody(source: BodySource, limit: BodyLimit, admission?: unknown): Promise<Buffer | null> {
  const whole = new Promise<Buffer | null>((resolve, reject) => {
    source.receive({
      ...limit,
      received: (body, isLent) => resolve(isLent ? Buffer.from(body) : body),
      failed: reject,
      gone: () => resolve(null),
    })
  })
  if (!(admission instanceof Promise)) return whole
  whole.catch(() => {})
  return admission.then(() => whole)
}
