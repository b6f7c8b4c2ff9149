/** Writes a table for the scanner's memory, with the addresses that its parts have there. */

/** As in src/ingest/scanner/layout.ts: the address of the table, and the size of its area. */
export const schemaAt = 65_536
export const schemaBytes = 65_536

export class TableWriter {
  #bytes = Buffer.alloc(4_096)
  #length = 0

  /** Null: it is larger than the area for it. */
  bytes(): Buffer | null {
    return this.#length > schemaBytes ? null : Buffer.from(this.#bytes.subarray(0, this.#length))
  }

  /** Writes whole numbers as u32, then others as f64. Returns the address. A larger number becomes the largest u32. */
  words(words: readonly number[], numbers: readonly number[] = []): number {
    const start = this.#allocate(4 * words.length + 8 * numbers.length)
    for (const [index, word] of words.entries())
      this.#bytes.writeUInt32LE(Math.min(word, 0xffff_ffff), start + 4 * index)
    for (const [index, number] of numbers.entries())
      this.#bytes.writeDoubleLE(number, start + 4 * words.length + 8 * index)
    return schemaAt + start
  }

  setWord(address: number, word: number): void {
    this.#bytes.writeUInt32LE(word, address - schemaAt)
  }

  /** Returns the address of the text. */
  text(bytes: Buffer): number {
    const start = this.#allocate(bytes.length)
    bytes.copy(this.#bytes, start)
    return schemaAt + start
  }

  /** Addresses are multiples of four: other numbers have a meaning of their own in a rule. */
  #allocate(bytes: number): number {
    const start = this.#length
    this.#length = start + 4 * Math.ceil(bytes / 4)
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.alloc(2 * this.#length)
      this.#bytes.copy(larger)
      this.#bytes = larger
    }
    return start
  }
}
