/**
 * One reader for every format: arrays of pieces in the order of the input, each piece with its position. The format is
 * chosen by --format, by the name, or by the beginning of the content.
 */
import { usageFailure } from '../../client/failure.ts'
import type { CsvOptions } from './csv-columns.ts'
import { CsvSplitter } from './csv-splitter.ts'
import type { InputFormat } from './formats.ts'
import type { InputPiece, PieceReader, Splitter, StartAt } from './input.ts'
import { StreamSplitter, splitterOf } from './layout.ts'
import type { Source } from './source.ts'

export interface ReadOptions {
  /** Null: chosen by the name and the content. */
  format: InputFormat | null
  csv: CsvOptions
}

/** Throws Failure. */
export async function openReader(source: Source, options: ReadOptions, start: StartAt): Promise<PieceReader> {
  const format = options.format ?? formatOf(source)
  if (format === 'parquet') {
    const { ParquetReader } = await import('./parquet-reader.ts')
    return await ParquetReader.open(source, start)
  }
  const splitter = splitterFor(format, source, options.csv, start)
  return new SplitReader(source.open(start.offset), splitter, (offset) =>
    source.isGzip ? source.storedBytesRead() : offset,
  )
}

export function formatOf({ name, head }: Source): InputFormat {
  const [, extension = ''] = /\.(\w+)(?:\.gz)?$/i.exec(name) ?? []
  switch (extension.toLowerCase()) {
    case 'csv':
      return 'csv'
    case 'tsv':
    case 'tab':
      return 'tsv'
    case 'parquet':
    case 'pq':
      return 'parquet'
    default:
      return head?.toString('latin1', 0, 4) === 'PAR1' ? 'parquet' : 'json'
  }
}

function splitterFor(
  format: Exclude<InputFormat, 'parquet'>,
  source: Source,
  csv: CsvOptions,
  start: StartAt,
): Splitter {
  const { name, head } = source
  if (format === 'csv' || format === 'tsv') {
    const delimiter = csv.delimiter ?? (format === 'tsv' ? 0x09 : null)
    return new CsvSplitter(name, { ...csv, delimiter }, start, head)
  }
  if (csv.types.size > 0 || csv.header !== null || csv.delimiter !== null) {
    throw usageFailure(
      `--types, --columns and --delimiter are for CSV, and ${name} is not`,
      'add --format csv if it is',
    )
  }
  if (head === null) return new StreamSplitter(name)
  return splitterOf(format === 'ndjson' ? `${name}.ndjson` : name, head, start)
}

/** Reads a format whose records are found from the start on. */
export class SplitReader implements PieceReader {
  readonly unit = 'line'
  readonly storedBytes: (offset: number) => number
  readonly #splitter: Splitter
  readonly #chunks: AsyncIterator<Buffer>
  #isDone = false

  constructor(
    chunks: AsyncIterable<Buffer>,
    splitter: Splitter,
    storedBytes: (offset: number) => number = (offset) => offset,
  ) {
    this.#chunks = chunks[Symbol.asyncIterator]()
    this.#splitter = splitter
    this.storedBytes = storedBytes
  }

  get insideArray(): boolean {
    return this.#splitter.insideArray
  }

  get headerLine(): Buffer | null {
    return this.#splitter instanceof CsvSplitter ? this.#splitter.headerLine : null
  }

  async next(): Promise<InputPiece[] | null> {
    if (this.#isDone) return null
    const { value, done } = await this.#chunks.next()
    if (done !== true) return this.#splitter.push(value)
    const last = this.#splitter.finish()
    this.#isDone = true
    return last
  }

  async close(): Promise<void> {
    this.#isDone = true
    // Not awaited: a read of stdin that is under way would have to end first.
    void this.#chunks.return?.()?.catch(() => {})
  }
}
