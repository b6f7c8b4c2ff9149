/**
 * Groups records into request bodies: a JSON array of the original bytes of the records. The end of a batch depends
 * only on the input, the start of the batch and the limits. Therefore a resumed run cuts the same batches, and the
 * daemon recognizes them by their Idempotency-Key.
 */
import { setTimeout } from 'node:timers/promises'
import type { InputPiece, InputRecord, InvalidPiece, PieceReader } from './input.ts'

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
  readonly #reader: Pick<PieceReader, 'next'>
  readonly #lingerMs: number | null
  #queue: InputPiece[] = []
  #from = 0
  #ended = false
  #arriving: Promise<InputPiece[] | null> | null = null

  /** `lingerMs`: an incomplete batch is closed after this time without input (live input). Null: never. */
  constructor(reader: Pick<PieceReader, 'next'>, lingerMs: number | null) {
    this.#reader = reader
    this.#lingerMs = lingerMs
  }

  /**
   * The next batch, or null at the end of the input. It never mixes records and invalid pieces, so that batches do
   * not depend on how invalid pieces are handled. With `until`, it ends at that offset. An error in the input is
   * thrown after everything before it was returned.
   */
  async next(limits: BatchLimits, until = Number.POSITIVE_INFINITY): Promise<RecordBatch | null> {
    let bytes = 2
    const pieces: InputPiece[] = []
    while (pieces.length < limits.maxRecords) {
      // Most pieces are there already, and awaiting each would take longer than reading it.
      if (this.#from >= this.#queue.length && !(await this.#fill(pieces.length > 0))) break
      const piece = this.#queue[this.#from] as InputPiece
      if (piece.end > until || (pieces.length > 0 && piece.kind !== pieces[0]?.kind)) break
      const size = piece.bytes.length + (pieces.length === 0 ? 0 : 1)
      if (pieces.length > 0 && bytes + size > limits.maxBytes) break
      bytes += size
      pieces.push(piece)
      this.#from += 1
    }
    return pieces.length === 0 ? null : batchOf(pieces)
  }

  /** Reads until there is a piece. False if the batch must end here. */
  async #fill(isBegun: boolean): Promise<boolean> {
    while (this.#from >= this.#queue.length) {
      if (this.#ended) return false
      this.#arriving ??= this.#reader.next()
      // It can fail while nothing waits for it. The next call throws the error.
      this.#arriving.catch(() => {})
      let pieces: InputPiece[] | null | 'lingered'
      try {
        pieces = await this.#arrived(this.#arriving, isBegun)
      } catch (error) {
        // The records before the error are sent first. The next call throws it.
        if (!isBegun) throw error
        return false
      }
      if (pieces === 'lingered') return false
      this.#arriving = null
      this.#from = 0
      this.#queue = pieces ?? []
      this.#ended = pieces === null
    }
    return true
  }

  async #arrived(
    arriving: Promise<InputPiece[] | null>,
    isBegun: boolean,
  ): Promise<InputPiece[] | null | 'lingered'> {
    if (!isBegun || this.#lingerMs === null) return await arriving
    const timer = new AbortController()
    try {
      return await Promise.race([arriving, lingered(this.#lingerMs, timer.signal)])
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
  const isValid = last.kind === 'record'
  return {
    records: isValid ? (pieces as InputRecord[]) : [],
    invalid: isValid ? [] : (pieces as InvalidPiece[]),
    end: last.end,
    linesBeforeEnd: last.linesBeforeEnd,
  }
}

/** The body of records: their bytes, with brackets and commas. */
export function bodyOf(records: readonly InputRecord[]): Buffer {
  const parts: Buffer[] = [openBracket]
  for (const [index, record] of records.entries()) {
    if (index > 0) parts.push(comma)
    parts.push(record.bytes)
  }
  parts.push(closeBracket)
  return Buffer.concat(parts)
}
