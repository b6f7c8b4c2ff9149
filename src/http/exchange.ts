/**
 * One request's response and body, straight on uWebSockets. Every path goes through here, also those that hyper-express
 * routes: its own readers allocate what was announced, its `on('data')` never starts to flow on Node 20, and its `send`
 * waits for a body that nobody reads.
 *
 *   open ──answer…──▶ over ◀──client gone── open
 *
 * Rules of the binding that are kept here: `onAborted` is registered before anything else (a handler that returns
 * without it kills the process); once over, nothing touches the response; replies are corked; the memory given to
 * `onData` is only ours inside the call; text goes out as Buffers, since newer bindings write strings as Latin-1.
 */
import { tooLarge } from '../ingest/body.ts'
import { type HttpAnswer, statusLine } from './reply.ts'
import type { UwsResponse } from './uws.ts'

export class Exchange {
  readonly #res: UwsResponse
  readonly #onOver: () => void
  #isOver = false
  #isAborted = false
  #body: Promise<Buffer | null> | null = null
  #whenAborted: (() => void) | null = null

  /** `onOver` is called once: when the response is handed over or the client has gone. */
  constructor(res: UwsResponse, onOver: () => void) {
    this.#res = res
    this.#onOver = onOver
    res.onAborted(() => {
      this.#isAborted = true
      this.#whenAborted?.()
      this.#over()
    })
    // hyper-express has begun to read already, and at its `max_body_buffer` it pauses the response even when that is
    // over, which ends the process. Its reader is replaced: what comes is dropped until `body` asks for it.
    res.onData(() => {})
  }

  /** True once the client has gone. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  /** The socket's peer, 4 or 16 bytes. Only while the exchange is open. */
  peer(): Uint8Array {
    return new Uint8Array(this.#res.getRemoteAddress())
  }

  /**
   * The body as sent; null when the client went away. Rejects with `payload_too_large` once more has come, and with what
   * `onBytes`, told of each piece before it is kept, throws. To be called before the first wait: what arrives unasked is
   * lost. Later calls give the same promise.
   */
  body(maxBytes: number, onBytes: (bytes: number) => void = () => {}): Promise<Buffer | null> {
    this.#body ??= this.#collect(maxBytes, onBytes)
    return this.#body
  }

  /** Counts what comes: the announced length allocates nothing (30 idle connections claiming 10 MB once took 286 MB). */
  #collect(maxBytes: number, onBytes: (bytes: number) => void): Promise<Buffer | null> {
    if (this.#isOver) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      let chunks: Buffer[] = []
      let received = 0
      let isRefused = false
      this.#whenAborted = () => {
        chunks = []
        resolve(null)
      }
      this.#res.onData((chunk, isLast) => {
        if (isRefused || this.#isOver) return
        received += chunk.byteLength
        try {
          if (received > maxBytes) throw tooLarge(maxBytes)
          onBytes(chunk.byteLength)
        } catch (error) {
          isRefused = true
          chunks = []
          reject(error)
          return
        }
        const copy = Buffer.from(new Uint8Array(chunk))
        if (isLast) resolve(chunks.length === 0 ? copy : Buffer.concat([...chunks, copy]))
        else chunks.push(copy)
      })
    })
  }

  /** Does nothing once over. A body that is still coming in is read and dropped by the parser, so clients see the answer. */
  answer(answer: HttpAnswer, closeConnection: boolean): void {
    if (this.#isOver) return
    const res = this.#res
    res.cork(() => {
      writeHead(res, answer)
      if (answer.body !== null) res.end(answer.body, closeConnection)
      else if (answer.status !== 204 || closeConnection) res.endWithoutBody(0, closeConnection)
      // No Content-Length on 204. No argument either: `undefined` for one is written as 9223372036854775808.
      else res.endWithoutBody()
    })
    this.#over()
  }

  /** To HEAD: the head that GET would have had, its length included. */
  answerHead(answer: HttpAnswer, closeConnection: boolean): void {
    if (this.#isOver) return
    const length = answer.body === null ? 0 : Buffer.byteLength(answer.body)
    this.#res.cork(() => {
      writeHead(this.#res, answer)
      this.#res.endWithoutBody(length, closeConnection)
    })
    this.#over()
  }

  /** `onSent` once: true when the whole response went to the socket, false when the client went away before. */
  answerTracked(answer: HttpAnswer, onSent: (wasSent: boolean) => void): void {
    if (this.#isOver) {
      onSent(false)
      return
    }
    const res = this.#res
    const body = Buffer.from(answer.body ?? '')
    const complete = () => {
      onSent(true)
      this.#over()
    }
    this.#whenAborted = () => onSent(false)
    res.cork(() => {
      writeHead(res, answer)
      const start = res.getWriteOffset()
      const [, isDone] = res.tryEnd(body, body.length)
      if (isDone) return complete()
      res.onWritable((offset) => {
        const [isTaken, isComplete] = res.tryEnd(body.subarray(offset - start), body.length)
        if (isComplete) complete()
        return isTaken
      })
    })
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onOver()
  }
}

function writeHead(res: UwsResponse, answer: HttpAnswer): void {
  res.writeStatus(answer.status === 202 ? '202 Accepted' : statusLine(answer.status))
  for (const [name, value] of answer.headers) res.writeHeader(name, value)
}
