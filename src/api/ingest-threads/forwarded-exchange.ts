/** A forwarded request in main, which serves it like any other request. */
import { payloadTooLarge } from '../../contract/errors.ts'
import type { BodyReceiver } from '../../ingest/body-source.ts'
import type { Caller } from '../../platform/thread-calls.ts'
import type { Exchange, RequestHead } from '../http/exchange.ts'
import type { HttpResponse } from '../http/response.ts'
import type { ResponseStream } from '../http/response-stream.ts'
import type { ForwardedHead, IngestCalls, SendHow } from './protocol.ts'

export function forwardedHead(head: ForwardedHead, path: string): RequestHead {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
  return {
    method: head.method,
    query: head.query,
    param: (name) => head.params[names.indexOf(name)] ?? '',
    eachHeader: (take) => {
      for (const [name, value] of head.headers) take(name, value)
    },
  }
}

export class ForwardedExchange implements Exchange {
  readonly #id: number
  readonly #head: ForwardedHead
  readonly #thread: Pick<Caller<IngestCalls>, 'tell'>
  readonly #onOver: () => void
  readonly #body: Promise<Uint8Array | 'too_large' | null>
  #resolveBody: (body: Uint8Array | 'too_large' | null) => void = () => {}
  #onSent: ((wasSent: boolean) => void) | null = null
  #onGone: () => void = () => {}
  #taken: ((isOpen: boolean) => void) | null = null
  #isOver = false
  #isAborted = false

  /** `onOver` is called once: when the thread has the complete response, or when the client has disconnected. */
  constructor(
    id: number,
    head: ForwardedHead,
    thread: Pick<Caller<IngestCalls>, 'tell'>,
    onOver: () => void,
  ) {
    this.#id = id
    this.#head = head
    this.#thread = thread
    this.#onOver = onOver
    this.#body = new Promise((resolve) => {
      this.#resolveBody = resolve
    })
    if (!head.hasBody) this.#resolveBody(new Uint8Array(0))
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  peer(): Uint8Array {
    return this.#head.peer
  }

  onGone(listener: () => void): void {
    this.#onGone = listener
  }

  /** The thread has already collected the body, up to the largest size of any route. */
  receive(receiver: BodyReceiver): void {
    void this.#body.then((body) => {
      if (body === null) receiver.gone()
      else this.#handOver(body, receiver)
    })
  }

  #handOver(body: Uint8Array | 'too_large', receiver: BodyReceiver): void {
    const { maxBytes } = receiver
    try {
      if (body === 'too_large' || body.byteLength > maxBytes) throw payloadTooLarge(maxBytes)
      receiver.reserve(body.byteLength)
    } catch (error) {
      receiver.failed(error)
      return
    }
    receiver.received(Buffer.from(body.buffer, body.byteOffset, body.byteLength), false)
  }

  send(response: HttpResponse, closeConnection: boolean): void {
    this.#respond(closeConnection ? 'last' : 'send', response)
    this.#over()
  }

  sendAndCut(response: HttpResponse): void {
    this.#respond('cut', response)
    this.#over()
  }

  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void {
    if (this.#isOver) {
      onSent(false)
      return
    }
    this.#onSent = onSent
    this.#respond('tracked', response)
  }

  stream(response: HttpResponse): ResponseStream {
    if (!this.#isOver) this.#thread.tell('stream', [this.#id, response])
    return {
      write: (piece) => {
        if (this.#isOver) return Promise.resolve(false)
        const bytes = ownMemory(piece)
        this.#thread.tell('piece', [this.#id, bytes], [bytes.buffer as ArrayBuffer])
        return new Promise((resolve) => {
          this.#taken = resolve
        })
      },
      end: () => {
        if (!this.#isOver) this.#thread.tell('streamEnd', [this.#id])
        this.#over()
      },
    }
  }

  taken(): void {
    this.#taken?.(true)
    this.#taken = null
  }

  received(body: Uint8Array | 'too_large' | null): void {
    this.#resolveBody(body)
  }

  sent(wasSent: boolean): void {
    this.#onSent?.(wasSent)
    this.#onSent = null
    this.#over()
  }

  gone(): void {
    if (this.#isOver) return
    this.#isAborted = true
    this.#resolveBody(null)
    this.#onGone()
    this.#taken?.(false)
    this.sent(false)
  }

  #respond(how: SendHow, response: HttpResponse): void {
    if (this.#isOver) return
    const body = response.body === null ? null : ownMemory(response.body)
    const transfer = body === null ? [] : [body.buffer as ArrayBuffer]
    const sent = { ...response, body: body as Buffer | null }
    this.#thread.tell('respond', [this.#id, how, sent], transfer)
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onOver()
  }
}

/**
 * Returns bytes that can be transferred: small Buffers share their memory with others. A response is not read again
 * after it was sent.
 */
function ownMemory(body: Buffer): Uint8Array {
  const isAlone = body.length > Buffer.poolSize && body.buffer.byteLength === body.length
  return isAlone ? body : new Uint8Array(body)
}
