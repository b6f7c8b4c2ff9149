/** A webhook as it is verified, and the outcome. */
import type { HookRefusal, OpenedSource } from '../../contract/source-words.ts'

export type SourceOf<Type extends OpenedSource['type']> = Extract<OpenedSource, { type: Type }>

export interface HookRequest {
  readonly method: 'GET' | 'POST'
  /** A header by its name in lower case. */
  readonly headers: (name: string) => string | undefined
  /** The query of the URL as sent, without the question mark. */
  readonly query: string
  /** The body as sent. */
  readonly body: Uint8Array
  /** Milliseconds since 1970. */
  readonly now: number
  /** The path after the id of the pipe. */
  readonly token?: string | undefined
}

export interface Refused {
  ok: false
  reason: HookRefusal
}

export interface Accepted {
  ok: true
  /**
   * The provider's id of the delivery, for use as Idempotency-Key. A provider that repeats a delivery can change its body
   * (Stripe counts `pending_webhooks`), so the key decides alone, without the hash of the body.
   */
  deliveryId?: string | undefined
}

/** A response that the provider asked for. Nothing is stored. `body` has text of the request: send it with nosniff. */
export interface Answered {
  ok: true
  answer: { status: 200; type: 'text/plain; charset=utf-8' | 'application/json'; body: string }
}

export type Verdict = Accepted | Answered | Refused
