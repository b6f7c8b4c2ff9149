/**
 * Groups records into request bodies: a JSON array of the records' own bytes. Where a batch ends depends only on the
 * input, on where it begins and on the limits, so that a resumed run cuts the same batches and the daemon knows them
 * again by their Idempotency-Key.
 */
import { setTimeout } from 'node:timers/promises'
import type { InputRecord, RecordSplitter } from './record-splitter.ts'

export interface BatchLimits {
  maxRecords: number
  /** Of the body before compression; a record that is larger goes alone. */
  maxBytes: number
}

export interface RecordBatch {
  records: InputRecord[]
  /** Offset in the input after the last record. */
  end: number
}

const openBracket = Buffer.from('[')
const comma = Buffer.from(',')
const closeBracket = Buffer.from(']')

export class Batcher {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #splitter: RecordSplitter
  #queue: InputRecord[] = []
  #from = 0
  #ended = false
  readonly #lingerMs: number | null
  #arriving: Promise<IteratorResult<Buffer>> | null = null

  /** `lingerMs`: a batch that is not full is closed when no input came for so long (live input); null: never. */
  constructor(chunks: AsyncIterable<Buffer>, splitter: RecordSplitter, lingerMs: number | null) {
    this.#lingerMs = lingerMs
    this.#chunks = chunks[Symbol.asyncIterator]()
    this.#splitter = splitter
  }

  get insideArray(): boolean {
    return this.#splitter.insideArray
  }

  /** The next batch; null at the end of the input. A fault of the input is thrown once all before it is taken. */
  async next(limits: BatchLimits): Promise<RecordBatch | null> {
    let bytes = 2
    const records: InputRecord[] = []
    while (records.length < limits.maxRecords) {
      const record = await this.#peek(records.length > 0)
      if (record === null) break
      const size = record.bytes.length + (records.length === 0 ? 0 : 1)
      if (records.length > 0 && bytes + size > limits.maxBytes) break
      records.push(record)
      bytes += size
      this.#from += 1
    }
    const last = records.at(-1)
    return last === undefined ? null : { records, end: last.end }
  }

  /** Puts a batch back, to be cut again by smaller limits. */
  putBack(batch: RecordBatch): void {
    this.#queue = [...batch.records, ...this.#queue.slice(this.#from)]
    this.#from = 0
  }

  /** The next record without taking it; null when the batch must end here. */
  async #peek(batchHasRecords: boolean): Promise<InputRecord | null> {
    while (this.#from >= this.#queue.length) {
      if (this.#ended) return null
      const chunk = await this.#nextChunk(batchHasRecords)
      if (chunk === 'lingered') return null
      this.#from = 0
      this.#queue = []
      try {
        if (chunk.done) this.#splitter.finish()
        else this.#queue = this.#splitter.push(chunk.value)
        this.#ended = chunk.done === true
      } catch (error) {
        // The records before the fault are sent first; the splitter tells the fault again at the next call.
        if (!batchHasRecords) throw error
        return null
      }
    }
    return this.#queue[this.#from] ?? null
  }

  async #nextChunk(batchHasRecords: boolean): Promise<IteratorResult<Buffer> | 'lingered'> {
    this.#arriving ??= this.#chunks.next()
    const lingers = batchHasRecords && this.#lingerMs !== null
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

/** The body of a batch: the records as they stand, between brackets and commas. */
export function bodyOf(batch: RecordBatch): Buffer {
  const parts: Buffer[] = [openBracket]
  for (const [index, record] of batch.records.entries()) {
    if (index > 0) parts.push(comma)
    parts.push(record.bytes)
  }
  parts.push(closeBracket)
  return Buffer.concat(parts)
}
