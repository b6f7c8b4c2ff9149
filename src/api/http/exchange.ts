/**
 * The port of one request to the HTTP library below: its head, its body and one response. Each engine (`engine.ts`)
 * implements it; all code above uses only these types. Below the port is what every engine needs: whether a head can be
 * trusted, the collection of a body, and the count of requests in progress.
 *
 *   open ──send…──▶ over ◀──client disconnected── open
 */
import { ApiError, payloadTooLarge } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BodyReceiver, BodySource } from '../../ingest/body-source.ts'
import { GrowingBuffer } from '../../ingest/growing-buffer.ts'
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

/**
 * Decides whether a request's head can be trusted: where its body ends, who sends it, how large it is. The parser of
 * uWebSockets accepts two Content-Lengths and any Transfer-Encoding, and that of node:http accepts `gzip, chunked`. A
 * proxy in front can read the same bytes differently, and an attacker could use that to smuggle a request past it. A
 * request is therefore rejected, on every path, if it has both headers, two of either, or a Transfer-Encoding other
 * than `chunked`. Nothing that comes after it on the connection is executed.
 */
export interface Framing {
  contentLengths: number
  contentLength: string
  transferEncodings: number
  transferEncoding: string
  authorizations: number
  headers: number
  /** The size of all headers: names, values and separators. */
  bytes: number
}

export function noFraming(): Framing {
  return {
    contentLengths: 0,
    contentLength: '',
    transferEncodings: 0,
    transferEncoding: '',
    authorizations: 0,
    headers: 0,
    bytes: 0,
  }
}

/** Adds one header. `name` is in lower case. */
export function noteHeader(framing: Framing, name: string, value: string): void {
  framing.headers++
  framing.bytes += name.length + value.length + 4
  if (name === 'content-length') {
    framing.contentLengths++
    framing.contentLength = value
  } else if (name === 'transfer-encoding') {
    framing.transferEncodings++
    framing.transferEncoding = value
  } else if (name === 'authorization') framing.authorizations++
}

/** The error with which the request is rejected and its connection cut. Null if the head is valid. */
export function framingFault(framing: Framing): ApiError | null {
  const complaint = complaintAbout(framing)
  if (complaint !== null) return new ApiError('bad_request', { message: complaint })
  if (framing.headers > resourceLimits.headers) {
    const message = `The request has more than ${resourceLimits.headers} headers.`
    return new ApiError('headers_too_large', { message })
  }
  return framing.bytes > resourceLimits.headBytes ? new ApiError('headers_too_large') : null
}

function complaintAbout(framing: Framing): string | null {
  const { contentLengths, contentLength, transferEncodings, transferEncoding } = framing
  if (contentLengths > 1) return 'More than one Content-Length.'
  if (transferEncodings > 1) return 'More than one Transfer-Encoding.'
  if (contentLengths === 1 && transferEncodings === 1) return 'Both Content-Length and Transfer-Encoding.'
  if (transferEncodings === 1 && transferEncoding.trim().toLowerCase() !== 'chunked') {
    return 'Transfer-Encoding must be chunked.'
  }
  if (contentLengths === 1 && !/^\d{1,15}$/.test(contentLength.trim()))
    return 'Content-Length is not a number.'
  return null
}

/**
 * Counts the bytes of a body as they arrive. The announced length allocates nothing: 30 idle connections that claimed
 * 10 MB each once took 286 MB. A body that arrives in one piece, as most do, is not copied: its receiver borrows the
 * socket's memory. A body in tiny pieces ends its connection: each piece costs the main thread time, and one read of
 * the socket can hold tens of thousands of them.
 */
export class BodyCollector {
  readonly #receiver: BodyReceiver
  #collected: GrowingBuffer | null = null
  #bytes = 0
  #pieces = 0
  #isOver = false

  constructor(receiver: BodyReceiver) {
    this.#receiver = receiver
  }

  /**
   * Reads the piece before it returns. Returns false when the pieces are so small that the connection must be closed.
   */
  take(piece: Buffer, isLast: boolean): boolean {
    this.#pieces++
    this.#bytes += piece.length
    if (
      this.#pieces > resourceLimits.tinyPieces &&
      this.#bytes < this.#pieces * resourceLimits.averagePieceBytes
    ) {
      return false
    }
    if (this.#isOver) return true
    const receiver = this.#receiver
    let whole: Buffer | null
    try {
      whole = this.#add(piece, isLast)
    } catch (error) {
      this.#end()
      receiver.failed(error)
      return true
    }
    if (whole !== null) {
      this.#end()
      receiver.received(whole, whole === piece)
    }
    return true
  }

  /** The client has disconnected, or its response has been sent. Bytes that still arrive are counted and dropped. */
  abandon(): void {
    if (this.#isOver) return
    this.#end()
    this.#receiver.gone()
  }

  /** Returns the whole body once it is complete: the piece itself if the body came in one piece. */
  #add(piece: Buffer, isLast: boolean): Buffer | null {
    const { maxBytes, announcedBytes } = this.#receiver
    if (this.#bytes > maxBytes) throw payloadTooLarge(maxBytes)
    if (isLast && this.#collected === null) {
      this.#receiver.reserve(this.#bytes)
      return piece
    }
    this.#collected ??= new GrowingBuffer(announcedBytes > 0 ? announcedBytes : maxBytes, (bytes) =>
      this.#receiver.reserve(bytes),
    )
    this.#collected.append(piece, isLast)
    return isLast ? this.#collected.bytes() : null
  }

  #end(): void {
    this.#isOver = true
    this.#collected = null
  }
}

/** The number of requests in progress, and whether the server is stopping. */
export interface Traffic {
  /** Returns the function to call when the request is over. */
  begin(): () => void
  underWay(): number
  stop(): void
  isStopping(): boolean
  idle(): Promise<void>
}

export function countTraffic(): Traffic {
  let count = 0
  let isStopping = false
  let waiting: (() => void)[] = []
  const end = () => {
    count--
    if (count > 0) return
    for (const resolve of waiting) resolve()
    waiting = []
  }
  return {
    begin: () => {
      count++
      return end
    },
    underWay: () => count,
    stop: () => {
      isStopping = true
    },
    isStopping: () => isStopping,
    idle: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  }
}
