/**
 * Counts a body as it comes: the announced length allocates nothing (30 idle connections claiming 10 MB once took
 * 286 MB). A body in one piece, as most are, is not copied: it is lent to its receiver where the socket's bytes are. A body
 * in tiny pieces ends with its connection: each costs the main thread time, and one read of the socket holds tens of
 * thousands.
 */
import { payloadTooLarge } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BodyReceiver } from '../../ingest/body-source.ts'
import { GrowingBuffer } from '../../ingest/growing-buffer.ts'

export class BodyCollector {
  readonly #receiver: BodyReceiver
  #collected: GrowingBuffer | null = null
  #bytes = 0
  #pieces = 0
  #isOver = false

  constructor(receiver: BodyReceiver) {
    this.#receiver = receiver
  }

  /** The piece is read before this returns. Returns false when the connection must be closed for what has come. */
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

  /** The client has gone, or its response has been sent: what still comes is counted and dropped. */
  abandon(): void {
    if (this.#isOver) return
    this.#end()
    this.#receiver.gone()
  }

  /** The whole body once it is there: the piece itself where it is all of it. */
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
