/**
 * Counts a body as it comes: the announced length allocates nothing (30 idle connections claiming 10 MB once took
 * 286 MB). A body in tiny pieces ends with its connection: each costs the main thread time, and one read of the socket
 * holds tens of thousands.
 */
import { payloadTooLarge } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { GrowingBuffer } from '../ingest/growing-buffer.ts'
import type { BodyLimit } from './exchange.ts'

export class BodyCollector {
  /** Null when the client went away. Rejects with `payload_too_large` and with what `reserve` throws. */
  readonly whole: Promise<Buffer | null>
  readonly #limit: BodyLimit
  #received: GrowingBuffer | null = null
  #bytes = 0
  #pieces = 0
  #isOver = false
  #resolve!: (body: Buffer | null) => void
  #reject!: (error: unknown) => void

  constructor(limit: BodyLimit) {
    this.#limit = limit
    this.whole = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** Copies the piece. Returns false when the connection must be closed for what has come. */
  take(piece: Uint8Array, isLast: boolean): boolean {
    this.#pieces++
    this.#bytes += piece.byteLength
    if (
      this.#pieces > resourceLimits.tinyPieces &&
      this.#bytes < this.#pieces * resourceLimits.averagePieceBytes
    ) {
      return false
    }
    if (!this.#isOver) this.#append(piece, isLast)
    return true
  }

  /** The client has gone, or its response has been sent: what still comes is counted and dropped. */
  abandon(): void {
    if (this.#isOver) return
    this.#end()
    this.#resolve(null)
  }

  #append(piece: Uint8Array, isLast: boolean): void {
    const { maxBytes, announcedBytes, reserve } = this.#limit
    try {
      if (this.#bytes > maxBytes) throw payloadTooLarge(maxBytes)
      if (isLast && this.#received === null) {
        reserve(this.#bytes)
        this.#resolve(Buffer.from(piece))
      } else {
        this.#received ??= new GrowingBuffer(announcedBytes > 0 ? announcedBytes : maxBytes, reserve)
        this.#received.append(piece, isLast)
        if (!isLast) return
        this.#resolve(this.#received.bytes())
      }
    } catch (error) {
      this.#reject(error)
    }
    this.#end()
  }

  #end(): void {
    this.#isOver = true
    this.#received = null
  }
}
