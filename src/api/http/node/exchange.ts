/**
 * One request's response and body on node:http.
 *
 *   open ──send…──▶ responded ──handed to the socket──▶ over ◀──client disconnected── open, responded
 *
 * Rules of node:http that are kept here: a response whose connection has closed is not written to, but still has an
 * error listener (an error without a listener ends the process). A body is read even if the handler does not want it,
 * because node:http does not notice a disconnect on a connection that it does not read.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { resourceLimits } from '../../../contract/resource-limits.ts'
import type { BodyReceiver } from '../../../ingest/body-source.ts'
import { BodyCollector, type Exchange } from '../exchange.ts'
import { type HttpResponse, hasLength } from '../response.ts'
import type { ResponseStream } from '../response-stream.ts'
import type { Connection, OpenExchange } from './connection.ts'

export class NodeExchange implements Exchange, OpenExchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #connection: Connection
  readonly #onOver: () => void
  #collector: BodyCollector | null = null
  #awaitsContinue: boolean
  #hasResponded = false
  /** The response has no length, and its client reads it as it comes. */
  #isStreaming = false
  #whenGone: () => void = () => {}
  #isOver = false
  #isAborted = false
  #onGone: () => void = () => {}
  #onSent: ((wasSent: boolean) => void) | null = null

  /**
   * `awaitsContinue`: the client sends its body only after `100 Continue`. `onOver` is called once, when the response
   * is handed over or the client has disconnected.
   */
  constructor(
    { request, response }: { request: IncomingMessage; response: ServerResponse },
    connection: Connection,
    awaitsContinue: boolean,
    onOver: () => void,
  ) {
    this.#request = request
    this.#response = response
    this.#connection = connection
    this.#awaitsContinue = awaitsContinue
    this.#onOver = onOver
    response.on('error', () => {})
    connection.begin(this, request)
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  get isSending(): boolean {
    const isWhole = this.#hasResponded && !this.#isStreaming
    return isWhole && !this.#isOver && this.#response.socket !== null
  }

  get isUnanswered(): boolean {
    return !this.#hasResponded
  }

  onGone(listener: () => void): void {
    this.#onGone = listener
  }

  peer(): Uint8Array {
    return this.#connection.peer
  }

  receive(receiver: BodyReceiver): void {
    if (this.#hasResponded || this.#isOver) {
      receiver.gone()
      return
    }
    const collector = new BodyCollector(receiver)
    this.#collector = collector
    let missing = receiver.announcedBytes
    const take = (piece: Buffer, isLast: boolean) => {
      if (this.#hasResponded || this.#isOver) return
      if (!collector.take(piece, isLast)) this.#connection.socket.destroy()
    }
    this.#request.on('data', (piece: Buffer) => {
      missing -= piece.length
      take(piece, missing === 0)
    })
    // The end of a body. The piece is empty: there was no body, or chunks do not announce which one is the last.
    this.#request.on('end', () => take(noBytes, true))
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false
      this.#response.writeContinue()
    }
  }

  /** Called when the handler has first returned: a body that it did not ask for is dropped. */
  dropUnwantedBody(): void {
    if (this.#collector === null) this.#request.resume()
  }

  send(response: HttpResponse, closeConnection: boolean): void {
    if (this.#hasResponded || this.#isOver) return
    this.#hasResponded = true
    this.#collector?.abandon()
    if (this.#connection.socket.destroyed) return
    // A client that got no `100 Continue` can send its body or not, so its next bytes could be a body or a request.
    const isLast = closeConnection || this.#awaitsContinue
    const { status, headers, body } = response
    const fields = headers.flat()
    if (hasLength(response)) fields.push('Content-Length', String(body?.byteLength ?? 0))
    if (isLast) fields.push('Connection', 'close')
    this.#response.writeHead(status, fields)
    // Registered before node's own listener, which may close the connection.
    this.#response.prependOnceListener('finish', () => this.#finished())
    if (body === null || this.#request.method === 'HEAD') this.#response.end()
    else this.#response.end(body)
  }

  sendAndCut(response: HttpResponse): void {
    this.#connection.executeNoMore()
    this.send(response, true)
  }

  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void {
    if (this.#hasResponded || this.#isOver) {
      onSent(false)
      return
    }
    this.#onSent = onSent
    this.send(response, false)
  }

  stream({ status, headers }: HttpResponse): ResponseStream {
    const response = this.#response
    if (!this.#hasResponded && !this.#isOver && !this.#connection.socket.destroyed) {
      this.#hasResponded = true
      this.#isStreaming = true
      this.#collector?.abandon()
      response.writeHead(status, [...headers.flat(), 'Connection', 'close'])
      response.prependOnceListener('finish', () => this.#finished())
    }
    return {
      write: async (piece) => {
        if (this.#isOver || this.#connection.socket.destroyed) return false
        return response.write(piece) || (await this.#drained())
      },
      end: () => {
        if (!this.#isOver) response.end()
      },
    }
  }

  #drained(): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isOpen: boolean) => {
        clearTimeout(timer)
        this.#response.off('drain', drained)
        resolve(isOpen)
      }
      const drained = () => settle(true)
      const timer = setTimeout(() => this.#connection.socket.destroy(), resourceLimits.readWindowMs)
      this.#whenGone = () => settle(false)
      this.#response.once('drain', drained)
    })
  }

  /** The event also comes when the connection was closed while a part of the response was still to be written. */
  #finished(): void {
    if (this.#connection.socket.destroyed) this.gone()
    else this.#over(true)
  }

  gone(): void {
    if (this.#isOver) return
    this.#isAborted = true
    this.#onGone()
    this.#whenGone()
    this.#collector?.abandon()
    this.#over(false)
  }

  #over(wasSent: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#connection.end(this)
    this.#onSent?.(wasSent)
    this.#onOver()
  }
}

const noBytes = Buffer.alloc(0)
