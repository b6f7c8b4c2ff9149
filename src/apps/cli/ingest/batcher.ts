/**
 * Groups records into request bodies: a JSON array of the original bytes of the records. The end of a batch depends
 * only on the input, the start of the batch and the limits. Therefore a resumed run cuts the same batches, and the
 * daemon recognizes them by their Idempotency-Key.
 */
import { setTimeout } from 'node:timers/promises'
import type { InputPiece, InputRecord, InvalidPiece, Splitter } from './input.ts'

export interface BatchLimits {
  maxRecords: number
  /** The body size before compression. A larger record is sent alone. */
  maxBytes: number
}

/** A section of the input: the records of one request, or invalid pieces. */
export interface RecordBatch {
  records: InputRecord[]
  invalid: InvalidPiece[]
  /** The offset after the last piece in the input, and the number of line breaks before it. */
  end: number
  linesBeforeEnd: number
}

const openBracket = Buffer.from('[')
const comma = Buffer.from(',')
const closeBracket = Buffer.from(']')

export class Batcher {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #splitter: Splitter
  #queue: InputPiece[] = []
  #from = 0
  #ended = false
  readonly #lingerMs: number | null
  #arriving: Promise<IteratorResult<Buffer>> | null = null

  /** `lingerMs`: an incomplete batch is closed after this time without input (live input). Null: never. */
  constructor(chunks: AsyncIterable<Buffer>, splitter: Splitter, lingerMs: number | null) {
    this.#lingerMs = lingerMs
    this.#chunks = chunks[Symbol.asyncIterator]()
    this.#splitter = splitter
  }

  get insideArray(): boolean {
    return this.#splitter.insideArray
  }

  /**
   * The next batch, or null at the end of the input. It never mixes records and invalid pieces, so that batches do
   * not depend on how invalid pieces are handled. An error in the input is thrown after everything before it was
   * returned.
   */
  async next(limits: BatchLimits): Promise<RecordBatch | null> {
    let bytes = 2
    const pieces: InputPiece[] = []
    while (pieces.length < limits.maxRecords) {
      const piece = await this.#peek(pieces.length > 0)
      if (piece === null || (pieces.length > 0 && piece.kind !== pieces[0]?.kind)) break
      const size = piece.bytes.length + (pieces.length === 0 ? 0 : 1)
      if (pieces.length > 0 && bytes + size > limits.maxBytes) break
      bytes += size
      pieces.push(piece)
      this.#from += 1
    }
    return pieces.length === 0 ? null : batchOf(pieces)
  }

  /** Returns a batch to the input, so that it is cut again with smaller limits. */
  putBack(batch: RecordBatch): void {
    this.#queue = [...batch.records, ...batch.invalid, ...this.#queue.slice(this.#from)]
    this.#from = 0
  }

  /** The next piece, without removing it. Null if the batch must end here. */
  async #peek(isBegun: boolean): Promise<InputPiece | null> {
    while (this.#from >= this.#queue.length) {
      if (this.#ended) return null
      const chunk = await this.#nextChunk(isBegun)
      if (chunk === 'lingered') return null
      this.#from = 0
      this.#queue = []
      try {
        this.#queue = chunk.done ? this.#splitter.finish() : this.#splitter.push(chunk.value)
        this.#ended = chunk.done === true
      } catch (error) {
        // The records before the error are sent first. The splitter throws the error again at the next call.
        if (!isBegun) throw error
        return null
      }
    }
    return this.#queue[this.#from] ?? null
  }

  async #nextChunk(isBegun: boolean): Promise<IteratorResult<Buffer> | 'lingered'> {
    this.#arriving ??= this.#chunks.next()
    const lingers = isBegun && this.#lingerMs !== null
    const timer = new AbortController()
    try {
      const chunk = await (lingers
        ? Promise.race([this.#arriving, lingered(this.#lingerMs ?? 0, timer.signal)])
        : this.#arriving)
      if (chunk !== 'lingered') this.#arriving = null
      return chunk
    } finally {
      timer.abort()
    }
  }
}

async function lingered(ms: number, signal: AbortSignal): Promise<'lingered'> {
  await setTimeout(ms, undefined, { signal }).catch(() => {})
  return 'lingered'
}

function batchOf(pieces: InputPiece[]): RecordBatch {
  const last = pieces.at(-1)!
  return {
    records: pieces.filter((piece) => piece.kind === 'record'),
    invalid: pieces.filter((piece) => piece.kind === 'invalid'),
    end: last.end,
    linesBeforeEnd: last.linesBeforeEnd,
  }
}

/** The body of a batch: the bytes of the records, with brackets and commas. */
export function bodyOf(batch: RecordBatch): Buffer {
  const parts: Buffer[] = [openBracket]
  for (const [index, record] of batch.records.entries()) {
    if (index > 0) parts.push(comma)
    parts.push(record.bytes)
  }
  parts.push(closeBracket)
  return Buffer.concat(parts)
}
