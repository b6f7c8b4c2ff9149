/**
 * A client's connection on node:http: its requests in progress, and its timeouts.
 *
 *   serving ──a request that cannot be trusted──▶ cut: its response goes out, nothing that came after it is executed
 *
 * node:http has limits of time for heads and for idle connections. Those for bodies and responses are here, as uWebSockets
 * has them; it looks once a second.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import ipaddr from 'ipaddr.js'
import { resourceLimits } from '../../../contract/resource-limits.ts'
import { patienceMs } from '../engine.ts'

const { readWindowMs, readWindowBytes } = resourceLimits
const minBodyBytes = 16 * 1024 * (patienceMs / 1_000)
/** Requests of one connection that may wait for their response; more is no client that waits for any. */
const maxPipelined = 64
/** How long a rejected client may go on sending before its connection is reset. */
const lingerMs = 1_000

/** A request in progress. */
export interface OpenExchange {
  /** True while the response, whole, waits for the client to take it, and no other response of the connection before it. */
  readonly isSending: boolean
  /** True while nothing of a response can have been written. */
  readonly isUnanswered: boolean
  /** The connection has closed, or takes no response any more. */
  gone(): void
}

export class Connection {
  readonly socket: Socket
  readonly #open = new Set<OpenExchange>()
  #isCut = false
  /** Requests that came after the connection was cut. */
  #ignored = 0
  #peer: Uint8Array | null = null
  /** The last request, of which the body may still be coming in. */
  #latest: IncomingMessage | null = null
  readonly #receiving = new ProgressWindow(patienceMs, minBodyBytes)
  readonly #sending = new ProgressWindow(readWindowMs, readWindowBytes)

  constructor(socket: Socket) {
    this.socket = socket
    socket.once('close', () => {
      for (const exchange of [...this.#open]) exchange.gone()
    })
  }

  /** 4 or 16 bytes; empty when the socket does not say. */
  get peer(): Uint8Array {
    this.#peer ??= addressBytes(this.socket.remoteAddress)
    return this.#peer
  }

  /** False for a request that must be neither executed nor answered. */
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
   * Handles bytes that are not HTTP. `response`, as it goes over the wire, is sent unless it could be taken for the
   * response to another request; null: none is sent.
   */
  reject(response: Buffer | null): void {
    // The response to what could not be trusted is on its way.
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
    // Closed at once, with bytes unread, it would be reset, and the client would not see the response.
    const timer = setTimeout(() => this.socket.destroy(), lingerMs)
    this.socket.once('close', () => clearTimeout(timer))
  }

  /** Called once a second; closes what is too slow. */
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

  /** As `read-watch.ts` has it for uWebSockets: the client takes so much of its response in each window. */
  #checkResponse(nowMs: number): void {
    const isSending = [...this.#open].some((exchange) => exchange.isSending)
    if (!isSending) this.#sending.end()
    else if (this.#sending.isTooSlow(this, nowMs, takenBytes(this.socket))) this.socket.destroy()
  }
}

/**
 * Whether a transfer that is checked from time to time makes progress: at least a number of bytes more in each window
 * of time.
 */
class ProgressWindow {
  readonly #windowMs: number
  readonly #minBytes: number
  #begun: { of: object; atMs: number; bytes: number } | null = null

  constructor(windowMs: number, minBytes: number) {
    this.#windowMs = windowMs
    this.#minBytes = minBytes
  }

  /** `of`: what the bytes belong to; something else begins a window of its own. */
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
 * The bytes that the system has taken of all that was written. `bytesWritten` also counts bytes that still wait in
 * this process. Of those, only the handle knows the bytes that libuv holds; node:net asks it for its own timeouts.
 */
function takenBytes(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { _handle?: { writeQueueSize?: number } | null }
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0)
}

/** 4 or 16 bytes; none of a socket that does not say. */
export function addressBytes(address: string | undefined): Uint8Array {
  if (address === undefined || !ipaddr.isValid(address)) return new Uint8Array(0)
  return Uint8Array.from(ipaddr.parse(address).toByteArray())
}
