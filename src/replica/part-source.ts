/** The parts of an upload, from chunks of any size. */
export const partBytes = 8 * 1024 * 1024

/** Parts of 8 MiB, each valid until the next one is asked for. The last one can be smaller. An error of the chunks is kept: it is not one of the store. */
export class PartSource {
  readonly #chunks: AsyncIterable<Buffer>
  error: unknown

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks
  }

  async *parts(): AsyncGenerator<Buffer> {
    const part = Buffer.allocUnsafe(partBytes)
    let filled = 0
    for await (const chunk of this.#read()) {
      for (let at = 0; at < chunk.length; ) {
        const copied = chunk.copy(part, filled, at)
        at += copied
        filled += copied
        if (filled < partBytes) continue
        yield part
        filled = 0
      }
    }
    if (filled > 0) yield part.subarray(0, filled)
  }

  async *#read(): AsyncGenerator<Buffer> {
    try {
      yield* this.#chunks
    } catch (error) {
      this.error = error
      throw error
    }
  }
}
