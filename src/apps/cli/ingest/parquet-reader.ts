/**
 * Reads Parquet: one section of a row group at a time, its columns, then its rows as JSON. The position is the number of
 * the row.
 *
 * Sizes in a Parquet file are claims of its writer. They are checked before memory is allocated: the footer against the
 * size of the file, each column against the footer, and each page header against both. A section is at most 64 MiB of
 * encoded values and 2 million cells. The compressed bytes of one row group are kept while it is read.
 */
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import {
  type AsyncBuffer,
  type ColumnMetaData,
  type Compressors,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
  type RowGroup,
  type SchemaTree,
} from 'hyparquet'
import { parquetHeader } from 'hyparquet/src/column.js'
import { compressors as packaged } from 'hyparquet-compressors'
import { commandFailure, Failure } from '../../client/failure.ts'
import type { InputPiece, PieceReader, StartAt } from './input.ts'
import { textOf, withoutAnnotations } from './parquet-values.ts'
import type { Source } from './source.ts'

const mebibyte = 1024 * 1024
const maxFooterBytes = 64 * mebibyte
const maxGroupBytes = 512 * mebibyte
const maxPageBytes = 128 * mebibyte
/** Values of one page, including elements of lists. */
const maxPageValues = 16_000_000
const sectionBytes = 64 * mebibyte
const sectionCells = 2_000_000
/** Rows that are converted to JSON at once. */
const rowsPerTurn = 2_000
const utf8 = new TextDecoder('utf-8', { fatal: true })

interface Column {
  prefix: string
  text: (value: unknown) => string
}

interface Section {
  start: number
  end: number
  group: RowGroup
}

type Slice = (start: number, end: number) => Promise<Buffer>

export class ParquetReader implements PieceReader {
  readonly unit = 'row'
  readonly insideArray = false
  readonly headerLine = null
  readonly #source: Source
  readonly #slice: Slice
  readonly #metadata: FileMetaData
  readonly #names: string[]
  readonly #columns: Column[]
  readonly #sections: Section[]
  readonly #totalRows: number
  #rows: unknown[][] = []
  #row: number
  #rowInSection = 0
  #cached: { group: RowGroup; chunks: Map<number, ArrayBuffer> } | null = null

  /** Throws Failure if it is not a Parquet file that can be read. */
  static async open(source: Source, start: StartAt): Promise<ParquetReader> {
    const { slice, name, size, isGzip } = source
    if (slice === null || size === null || isGzip) {
      throw commandFailure(
        `${name}: Parquet is read from its end, which ${isGzip ? 'gzip' : 'stdin'} does not allow`,
        'put the Parquet file itself into a file and name that',
      )
    }
    return await readable(name, async () => {
      const metadata = await parquetMetadataAsync(bufferOf(await footerChecked(slice, size), size), {
        geoparquet: false,
      })
      return new ParquetReader(source, slice, metadata, start)
    })
  }

  private constructor(source: Source, slice: Slice, metadata: FileMetaData, start: StartAt) {
    this.#source = source
    this.#slice = slice
    const { children } = parquetSchema(metadata)
    checkGroups(metadata, source.size ?? 0)
    this.#metadata = { ...metadata, schema: withoutAnnotations(metadata.schema) }
    this.#names = children.map(({ element }) => element.name)
    this.#columns = columnsOf(children)
    this.#row = start.offset
    this.#totalRows = metadata.row_groups.reduce((sum, group) => sum + Number(group.num_rows), 0)
    this.#sections = sectionsOf(metadata).filter(({ end }) => end > start.offset)
  }

  async next(): Promise<InputPiece[] | null> {
    if (this.#rowInSection >= this.#rows.length) {
      const section = this.#sections.shift()
      if (section === undefined) return null
      await this.#read(section)
    }
    const rows = this.#rows.slice(this.#rowInSection, this.#rowInSection + rowsPerTurn)
    this.#rowInSection += rows.length
    return await readable(this.#source.name, async () => rows.map((row) => this.#piece(row)))
  }

  storedBytes(offset: number): number {
    return Math.floor(((this.#source.size ?? 0) * offset) / Math.max(1, this.#totalRows))
  }

  async close(): Promise<void> {
    this.#sections.length = 0
    this.#rows = []
  }

  async #read({ start, end, group }: Section): Promise<void> {
    const rowStart = Math.max(start, this.#row)
    // The old section is released first.
    this.#rows = []
    this.#rowInSection = 0
    this.#rows = await readable(this.#source.name, async () => {
      let rows: unknown[][] = []
      await this.#load(group)
      await parquetRead({
        file: bufferOf((from, to) => this.#bytes(from, to), this.#source.size ?? 0),
        metadata: this.#metadata,
        compressors,
        columns: this.#names,
        rowStart,
        rowEnd: end,
        utf8: false,
        parsers: {
          stringFromBytes: (bytes: Uint8Array) => bytes && utf8.decode(bytes),
          timestampFromNanoseconds: (nanoseconds: bigint) => nanoseconds,
        },
        onComplete: (complete: unknown[][]) => {
          rows = complete
        },
      })
      if (rows.length !== end - rowStart) throw new Error('a row group has fewer rows than the footer says')
      return rows
    })
  }

  /** Reads and checks the columns of a row group, once for all its sections. */
  async #load(group: RowGroup): Promise<void> {
    if (this.#cached?.group === group) return
    this.#cached = { group, chunks: new Map() }
    for (const { meta_data } of group.columns) {
      if (meta_data === undefined) continue
      const { begin, bytes } = extentOf(meta_data)
      const chunk = arrayBufferOf(await this.#slice(begin, begin + bytes))
      if (chunk.byteLength !== bytes) throw new Error('the file is shorter than its footer says')
      checkPages(chunk)
      this.#cached.chunks.set(begin, chunk)
    }
  }

  /** hyparquet reads small columns together with their neighbors. */
  async #bytes(from: number, to: number): Promise<ArrayBuffer> {
    const chunk = this.#cached?.chunks.get(from)
    return chunk?.byteLength === to - from ? chunk : arrayBufferOf(await this.#slice(from, to))
  }

  #piece(values: readonly unknown[]): InputPiece {
    let text = '{'
    for (let index = 0; index < this.#columns.length; index += 1) {
      const column = this.#columns[index] as Column
      text += column.prefix + column.text(values[index])
    }
    this.#row += 1
    const position = { line: this.#row, end: this.#row, linesBeforeEnd: this.#row }
    return { kind: 'record', bytes: Buffer.from(`${text}}`), ...position }
  }
}

function columnsOf(children: readonly SchemaTree[]): Column[] {
  const names = children.map(({ element }) => element.name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new Error(`the column ${JSON.stringify(twice)} is there twice`)
  return children.map((child, index) => ({
    prefix: `${index === 0 ? '' : ','}${JSON.stringify(child.element.name)}:`,
    text: textOf(child),
  }))
}

/** Sections of similar size, so that what they need in memory does not depend on the size of a row group. */
function sectionsOf({ row_groups }: FileMetaData): Section[] {
  const sections: Section[] = []
  let first = 0
  for (const group of row_groups) {
    const rows = Number(group.num_rows)
    const encoded = group.columns.reduce(
      (sum, { meta_data }) => sum + Number(meta_data?.total_uncompressed_size ?? 0),
      0,
    )
    const byBytes = Math.floor((rows * sectionBytes) / Math.max(1, encoded))
    const byCells = Math.floor(sectionCells / Math.max(1, group.columns.length))
    const size = Math.max(1000, Math.min(byBytes, byCells))
    for (let at = 0; at < rows; at += size) {
      sections.push({ start: first + at, end: first + Math.min(rows, at + size), group })
    }
    first += rows
  }
  return sections
}

/** Checks the length of the footer. Returns the slice function for it. */
async function footerChecked(
  slice: Slice,
  size: number,
): Promise<(from: number, to: number) => Promise<ArrayBuffer>> {
  const end = await slice(Math.max(0, size - 8), size)
  if (end.length < 8 || end.toString('latin1', 4) !== 'PAR1') throw new Error('it does not end with PAR1')
  const footerBytes = end.readUInt32LE(0)
  if (footerBytes > size - 12) throw new Error('its footer is longer than the file')
  if (footerBytes > maxFooterBytes)
    throw new Error(`its footer is longer than ${maxFooterBytes / mebibyte} MiB`)
  return async (from, to) => arrayBufferOf(await slice(from, to))
}

/** Throws if the footer contradicts the file, or a row group is too large. */
function checkGroups({ row_groups }: FileMetaData, size: number): void {
  for (const [index, { columns, num_rows }] of row_groups.entries()) {
    const compressed = columns.reduce((sum, column) => sum + checkedBytes(column, size), 0)
    if (compressed > maxGroupBytes) {
      throw new Error(
        `row group ${index + 1} has ${Math.ceil(compressed / mebibyte)} MiB and the limit is ${maxGroupBytes / mebibyte} MiB: write it with smaller row groups`,
      )
    }
    if (num_rows < 0n || (num_rows > 0n && columns.length === 0)) {
      throw new Error(`row group ${index + 1}: its number of rows is not valid`)
    }
  }
}

function checkedBytes({ meta_data, file_path }: RowGroup['columns'][number], size: number): number {
  if (meta_data === undefined || file_path) throw new Error('its columns are in other files')
  const { begin, bytes } = extentOf(meta_data)
  if (!(begin >= 4 && bytes >= 0 && begin + bytes <= size)) throw new Error('a column is outside of the file')
  if (!(meta_data.total_uncompressed_size >= 0)) throw new Error('a size in its footer is negative')
  return bytes
}

function extentOf(column: ColumnMetaData): { begin: number; bytes: number } {
  const begin = Number(column.dictionary_page_offset || column.data_page_offset)
  return { begin, bytes: Number(column.total_compressed_size) }
}

/**
 * Checks the page headers of a column before it is decoded, because hyparquet allocates what they say.
 */
export function checkPages(bytes: ArrayBuffer): void {
  const reader = { view: new DataView(bytes), offset: 0 }
  while (reader.offset < bytes.byteLength - 1) {
    const header = parquetHeader(reader)
    const { compressed_page_size, uncompressed_page_size } = header
    const values =
      header.data_page_header?.num_values ??
      header.data_page_header_v2?.num_values ??
      header.dictionary_page_header?.num_values ??
      0
    if (!(compressed_page_size >= 0 && reader.offset + compressed_page_size <= bytes.byteLength)) {
      throw new Error('a page is longer than its column')
    }
    if (!(uncompressed_page_size >= 0 && uncompressed_page_size <= maxPageBytes)) {
      throw new Error(
        `a page claims ${uncompressed_page_size} bytes, and the limit is ${maxPageBytes / mebibyte} MiB`,
      )
    }
    if (!(values >= 0 && values <= maxPageValues)) {
      throw new Error(`a page claims ${values} values, and the limit is ${maxPageValues}`)
    }
    reader.offset += compressed_page_size
  }
}

/** Never return more than the page header claims, which is checked before. */
const compressors: Compressors = {
  ...packaged,
  GZIP: (input, length) => gunzipSync(input, { maxOutputLength: Math.max(1, length) }),
  BROTLI: (input, length) => brotliDecompressSync(input, { maxOutputLength: Math.max(1, length) }),
}

function bufferOf(
  slice: (from: number, to: number) => Promise<ArrayBuffer>,
  byteLength: number,
): AsyncBuffer {
  return { byteLength, slice: (from, to = byteLength) => slice(from, to) }
}

function arrayBufferOf(bytes: Buffer): ArrayBuffer {
  const { buffer, byteOffset, byteLength } = bytes
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer
  return (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength)
}

/** Every error of the format becomes a Failure that names the file. */
async function readable<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Failure) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw commandFailure(
      `${name}: this Parquet file cannot be read: ${why}; the rows before that are accepted`,
      'check it with another program, or write it again',
      error,
    )
  }
}
