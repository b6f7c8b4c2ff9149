/**
 * Bytes that arrive in pieces, in one buffer that grows: a million pieces of one byte take a megabyte, and not a
 * million objects. Bytes are counted before they are allocated.
 */
export class GrowingBuffer {
  readonly #most: number
  readonly #reserve: (bytes: number) => void
  #buffer = nothing
  #length = 0

  /**
   * `most`: how large it is expected to become, e.g. the announced length; more can be appended. Nothing is allocated
   * on that word. `reserve` is called with the bytes that are about to be allocated; what it throws, `append` throws.
   */
  constructor(most: number, reserve: (bytes: number) => void) {
    this.#most = most
    this.#reserve = reserve
  }

  get length(): number {
    return this.#length
  }

  /** Copies the piece. `isLast`: no room is made for more. */
  append(piece: Uint8Array, isLast = false): void {
    const needed = this.#length + piece.length
    if (needed > this.#buffer.length) this.#grow(isLast ? needed : this.#nextSize(needed))
    this.#buffer.set(piece, this.#length)
    this.#length = needed
  }

  /** The bytes so far: a view, to be taken once. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  #nextSize(needed: number): number {
    const roomy = Math.max(this.#buffer.length * 2, firstSize)
    return Math.max(needed, Math.min(roomy, this.#most))
  }

  #grow(size: number): void {
    this.#reserve(size - this.#buffer.length)
    const larger = Buffer.allocUnsafe(size)
    larger.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = larger
  }
}

const firstSize = 16 * 1024
const nothing = Buffer.alloc(0)
