/**
 * Collects pieces of bytes in one growing buffer: a million pieces of one byte take a megabyte instead of a million
 * objects. Bytes are counted before they are allocated.
 */
export class GrowingBuffer {
  readonly #most: number
  readonly #reserve: (bytes: number) => void
  #buffer = nothing
  #length = 0

  /**
   * `most` is the expected size, for example the announced length; more can be appended. It allocates nothing by itself.
   * `reserve` is called before each allocation; `append` rethrows its error.
   */
  constructor(most: number, reserve: (bytes: number) => void) {
    this.#most = most
    this.#reserve = reserve
  }

  get length(): number {
    return this.#length
  }

  /** Copies the piece. `isLast`: allocates no space for more. */
  append(piece: Uint8Array, isLast = false): void {
    const needed = this.#length + piece.length
    if (needed > this.#buffer.length) this.#grow(isLast ? needed : this.#nextSize(needed))
    this.#buffer.set(piece, this.#length)
    this.#length = needed
  }

  /** Returns the bytes so far as a view. Call it once. */
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
