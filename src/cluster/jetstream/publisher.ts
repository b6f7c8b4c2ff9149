/**
 * Publishes frames on one connection and matches the stream's responses to them.
 *
 *   publish ─▶ in flight ──PubAck──▶ stored       the stream has it, on a majority of its replicas
 *                  │ ──error reply─▶ refused      the stream does not have it
 *                  └ ──5 s, connection lost──▶ unknown
 *
 * A frame is never published twice. So the frames of a pipe are in the stream in the order of publication, and an
 * acknowledged frame is stored once. The stream can have a frame whose outcome is `unknown`. The exception is
 * `mayBeStored: false`: without a connection nothing is published, because the library would drop it.
 */
import { messageOf } from '../../platform/error-code.ts'
import type { MsgHdrs, NatsConnection, NatsMessage } from '../nats/headers.ts'

/** The time without a response after which the outcome is unknown. */
const answerWithinMs = 5_000
const checkEveryMs = 250

export type PublishResult =
  | { kind: 'stored'; streamSeq: number }
  /** The stream has a message with the same `Nats-Msg-Id` at `streamSeq`; 0 while it is being stored. */
  | { kind: 'duplicate'; streamSeq: number }
  /** `code` is an error code of NATS. */
  | { kind: 'refused'; code: number; description: string }
  /**
   * No outcome is known. `mayBeStored` is false only if there was no connection, so that the frame was not sent. It
   * is true in every other case, also when the library failed to publish.
   */
  | { kind: 'unknown'; description: string; mayBeStored: boolean }

export interface Publication {
  subject: string
  data: Uint8Array
  headers?: MsgHdrs | undefined
  onResult(result: PublishResult): void
}

interface InFlight {
  sentAt: number
  onResult(result: PublishResult): void
}

export class Publisher {
  readonly #connection: NatsConnection
  readonly #inbox: string
  /** By the last part of the reply subject; oldest first. */
  readonly #inFlight = new Map<string, InFlight>()
  readonly #timer: NodeJS.Timeout
  #published = 0
  #isConnected = true

  constructor(connection: NatsConnection) {
    this.#connection = connection
    this.#inbox = `_INBOX.${crypto.randomUUID()}.`
    connection.subscribe(`${this.#inbox}*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message)
      },
    })
    this.#timer = setInterval(() => this.#expire(), checkEveryMs)
    void this.#watch()
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#connection.isClosed()
  }

  /** The limit of one message on this connection, including headers. */
  get maxPayload(): number {
    return this.#connection.info?.max_payload ?? 0
  }

  /** `data` must not change before the result. `onResult` is called once, possibly synchronously. */
  publish({ subject, data, headers, onResult }: Publication): void {
    if (!this.isConnected) {
      onResult({ kind: 'unknown', description: 'the connection is lost', mayBeStored: false })
      return
    }
    this.#published += 1
    const token = this.#published.toString(36)
    this.#inFlight.set(token, { sentAt: performance.now(), onResult })
    try {
      const reply = this.#inbox + token
      this.#connection.publish(subject, data, headers === undefined ? { reply } : { headers, reply })
    } catch (error) {
      this.#settle(token, unknown(messageOf(error)))
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#failAll('the connection is closed')
  }

  #receive(message: NatsMessage): void {
    const token = message.subject.slice(this.#inbox.length)
    if (this.#inFlight.has(token)) this.#settle(token, resultOf(message))
  }

  #settle(token: string, result: PublishResult): void {
    const publication = this.#inFlight.get(token)
    this.#inFlight.delete(token)
    publication?.onResult(result)
  }

  #expire(): void {
    const since = performance.now() - answerWithinMs
    for (const [token, { sentAt }] of this.#inFlight) {
      if (sentAt > since) return
      this.#settle(token, unknown(`no response within ${answerWithinMs / 1000} s`))
    }
  }

  #failAll(description: string): void {
    for (const token of [...this.#inFlight.keys()]) this.#settle(token, unknown(description))
  }

  /** Responses to frames in flight never arrive after the connection was lost. */
  async #watch(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (type === 'reconnect') this.#isConnected = true
      else if (type === 'disconnect' || type === 'close') {
        this.#isConnected = false
        this.#failAll('the connection is lost')
      }
    }
    this.#isConnected = false
  }
}

interface Answer {
  seq?: unknown
  duplicate?: unknown
  error?: { err_code?: unknown; description?: unknown }
}

function resultOf(message: NatsMessage): PublishResult {
  // No subscriber has the subject: there is no leader, or no stream.
  if (message.data.length === 0)
    return {
      kind: 'refused',
      code: message.headers?.code ?? 0,
      description: 'no server responds for the stream',
    }
  try {
    const { seq, duplicate, error } = message.json<Answer>()
    if (error !== undefined)
      return { kind: 'refused', code: Number(error.err_code ?? 0), description: String(error.description) }
    if (typeof seq === 'number' && Number.isSafeInteger(seq) && seq >= 0) {
      if (duplicate === true) return { kind: 'duplicate', streamSeq: seq }
      if (seq > 0) return { kind: 'stored', streamSeq: seq }
    }
  } catch {
    // Handled below.
  }
  return unknown('the response of the stream is not an acknowledgement')
}

function unknown(description: string): PublishResult {
  return { kind: 'unknown', description, mayBeStored: true }
}
