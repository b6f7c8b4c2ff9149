/**
 * A client's connection on node:http: its requests in progress, and its timeouts.
 *
 *   serving ──a request that cannot be trusted──▶ cut: its response is sent, nothing that arrived after it is executed
 *
 * node:http has timeouts for heads and for idle connections. The minimum rates of bodies and responses are enforced
 * here, with the same limits as for uWebSockets, once a second.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import ipaddr from 'ipaddr.js'
import { resourceLimits } from '../../../contract/resource-limits.ts'
import { patienceMs } from '../engine.ts'

const { readWindowMs, readWindowBytes } = resourceLimits
const minBodyBytes = 16 * 1024 * (patienceMs / 1_000)
/**
 * The maximum number of requests of one connection that can wait for their responses. A client that sends more does
 * not wait for any.
 */
const maxPipelined = 64
/** How long a rejected client can keep sending before its connection is reset. */
const lingerMs = 1_000

/** A request in progress. */
export interface OpenExchange {
  /**
   * True while the whole response waits for the client to read it, and no other response of the connection comes
   * before it.
   */
  readonly isSending: boolean
  /** True as long as no byte of a response can have been written. */
  readonly isUnanswered: boolean
  /** Called when the connection has closed or takes no more responses. */
  gone(): void
}

export class Connection {
  readonly socket: Socket
  readonly #open = new Set<OpenExchange>()
  #isCut = false
  /** Requests that came after the connection was cut. */
  #ignored = 0
  #peer: Uint8Array | null = null
  /** The latest request, whose body may still be arriving. */
  #latest: IncomingMessage | null = null
  readonly #receiving = new ProgressWindow(patienceMs, minBodyBytes)
  readonly #sending = new ProgressWindow(readWindowMs, readWindowBytes)

  constructor(socket: Socket) {
    this.socket = socket
    socket.once('close', () => {
      for (const exchange of [...this.#open]) exchange.gone()
    })
  }

  /** The peer address, 4 or 16 bytes. Empty if the socket does not report it. */
  get peer(): Uint8Array {
    this.#peer ??= addressBytes(this.socket.remoteAddress)
    return this.#peer
  }

  /** Returns false for a request that must be neither executed nor responded to. */
  mayServe(): boolean {
    if (this.#isCut) this.#ignored++
    if (this.#open.size + this.#ignored >= maxPipelined) this.socket.destroy()
    return !this.#isCut && !this.socket.destroyed
  }

  begin(exchange: OpenExchange, request: IncomingMessage): void {
    this.#open.add(exchange)
    this.#latest = request
  }

  end(exchange: OpenExchange): void {
    this.#open.delete(exchange)
  }

  executeNoMore(): void {
    this.#isCut = true
  }

  /**
   * Handles bytes that are not HTTP. `response` is in wire format. It is sent unless the client could take it for the
   * response to another request. Null: none is sent.
   */
  reject(response: Buffer | null): void {
    // The response to the request that could not be trusted is already on its way.
    if (this.#isCut) return
    const [pending = null, ...others] = this.#open
    const isReceiving = this.#latest !== null && !this.#latest.complete
    const isPlain =
      pending === null ? !isReceiving : others.length === 0 && isReceiving && pending.isUnanswered
    if (response === null || !isPlain || !this.socket.writable) {
      this.socket.destroy()
      return
    }
    this.#isCut = true
    pending?.gone()
    this.socket.end(response)
    // Closing now, with unread bytes, would reset the connection, and the client would not see the response.
    const timer = setTimeout(() => this.socket.destroy(), lingerMs)
    this.socket.once('close', () => clearTimeout(timer))
  }

  /** Called once a second. Closes the connection if its client is too slow. */
  check(nowMs: number): void {
    this.#checkBody(nowMs)
    this.#checkResponse(nowMs)
  }

  #checkBody(nowMs: number): void {
    const request = this.#latest
    if (request === null || request.complete) {
      this.#latest = null
      this.#receiving.end()
    } else if (this.#receiving.isTooSlow(request, nowMs, this.socket.bytesRead)) this.socket.destroy()
  }

  /** As `read-watch.ts` does for uWebSockets: the client must read a minimum number of bytes in each window. */
  #checkResponse(nowMs: number): void {
    const isSending = [...this.#open].some((exchange) => exchange.isSending)
    if (!isSending) this.#sending.end()
    else if (this.#sending.isTooSlow(this, nowMs, takenBytes(this.socket))) this.socket.destroy()
  }
}

/**
 * Checks from time to time whether a transfer makes progress: at least a minimum number of bytes in each window of
 * time.
 */
class ProgressWindow {
  readonly #windowMs: number
  readonly #minBytes: number
  #begun: { of: object; atMs: number; bytes: number } | null = null

  constructor(windowMs: number, minBytes: number) {
    this.#windowMs = windowMs
    this.#minBytes = minBytes
  }

  /** `of`: the transfer that the bytes belong to. Another transfer begins a new window. */
  isTooSlow(of: object, nowMs: number, bytes: number): boolean {
    const begun = this.#begun
    if (begun?.of === of) {
      if (nowMs - begun.atMs < this.#windowMs) return false
      if (bytes - begun.bytes < this.#minBytes) return true
    }
    this.#begun = { of, atMs: nowMs, bytes }
    return false
  }

  end(): void {
    this.#begun = null
  }
}

/**
 * The bytes that the system has taken of everything that was written. `bytesWritten` also counts bytes that still
 * wait in this process. Only the handle knows how many of those libuv holds; node:net asks it for its own timeouts.
 */
function takenBytes(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { _handle?: { writeQueueSize?: number } | null }
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0)
}

/** 4 or 16 bytes. Empty if the socket does not report its address. */
export function addressBytes(address: string | undefined): Uint8Array {
  if (address === undefined || !ipaddr.isValid(address)) return new Uint8Array(0)
  return Uint8Array.from(ipaddr.parse(address).toByteArray())
}
