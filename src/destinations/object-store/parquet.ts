/**
 * Encodes one Parquet file. Its bytes depend only on the records and the config: the compressors are the same on
 * every Node.js, and the file contains no time of its creation.
 *
 *   records ──cells──▶ row group, at most 8 MiB of values or one row ──encode, compress──▶ bytes of the row group
 *               └─ does not fit a column ──▶ rejected, the others continue
 *
 * The size of a row is counted before it is added: if the group has no room for it, the group is encoded and handed
 * over first.
 */
import { gzipSync } from 'node:zlib'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import type { ColumnMapping } from '../../contract/destination.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { pickMembers, stringValue } from '../../log/record-text.ts'
import { type Place, type Portion, PortionReader } from '../batch-portions.ts'
import { DeliveryError, type ObjectStoreSpec, type RejectedRecord } from '../driver.ts'
import { cutToCharacters } from '../error-text.ts'
import { generatedId } from '../sql/columns.ts'
import { type ColumnCells, isText, PlainCells, TextCells } from './parquet-cells.ts'
import {
  type Cell,
  cellOf,
  Misfit,
  type ParquetColumn,
  type ParquetKind,
  parquetColumns,
  receivedAtCell,
} from './parquet-columns.ts'

type WriterOptions = ConstructorParameters<typeof ParquetWriter>[0]
type SchemaElement = WriterOptions['schema'][number]
type Codec = NonNullable<WriterOptions['codec']>

type Compression = ObjectStoreSpec['config']['compression']

export interface ParquetSchema {
  columns: readonly ColumnMapping[]
  timestampField: string
  compression: Compression
}

export interface ParquetEnds {
  /** Returns the next records. Null: there are no more. If it rejects, the file fails with that error. */
  next(): Promise<Portion | null>
  /**
   * Receives the records that do not fit, in several calls. If it rejects, the file fails. Null: the first such
   * record fails the file.
   */
  park: ((rejected: readonly RejectedRecord[]) => Promise<void>) | null
  /** Receives the next bytes of the file: each row group, then the footer. */
  rowGroup(bytes: Uint8Array<ArrayBuffer>): void
}

/**
 * Returns the number of rows. Rejects with a permanent DeliveryError for a record that does not fit, and with any
 * error of the writer.
 */
export async function encodeParquet(
  { columns, timestampField, compression }: ParquetSchema,
  { next, park, rowGroup }: ParquetEnds,
): Promise<number> {
  const group = new RowGroup(parquetColumns(columns, timestampField))
  const file = new ParquetWriter({
    writer: new GroupWriter(rowGroup),
    schema: schemaOf(group.columns),
    createdBy: 'pipectl',
    ...(await compressionOf(compression)),
  })
  const rejected = new RejectedRecords(park)
  let rowCount = 0
  const end = () => {
    if (group.rows === 0) return
    file.write({ columnData: group.data(), rowGroupSize: group.rows })
    rowCount += group.rows
    group.clear()
  }
  const take = (text: string, place: Place): RejectedRecord | null => {
    const misfit = group.read(text, place)
    if (misfit !== null) return misfit
    if (!group.hasRoom) end()
    group.add()
    return null
  }
  const reader = new PortionReader()
  for (let portion = await next(); portion !== null; portion = await next()) {
    for (const { text, place } of reader.records(portion)) {
      const misfit = take(text, place)
      if (misfit !== null) await rejected.add(misfit)
    }
  }
  await rejected.keep()
  end()
  file.schema = withOlderNames(file.schema)
  file.finish()
  return rowCount
}

/**
 * Hands over each row group, and the bytes after the last one. The writer calls `flush` after each group, and
 * `finish` at the end.
 */
class GroupWriter extends ByteWriter {
  readonly #handOver: (bytes: Uint8Array<ArrayBuffer>) => void

  constructor(handOver: (bytes: Uint8Array<ArrayBuffer>) => void) {
    super()
    this.#handOver = handOver
  }

  flush(): void {
    this.#handOver(new Uint8Array(this.getBuffer()))
    this.index = 0
  }

  override finish(): void {
    this.flush()
  }
}

/** Records that do not fit, until they are parked. */
class RejectedRecords {
  readonly #park: ParquetEnds['park']
  #records: RejectedRecord[] = []

  constructor(park: ParquetEnds['park']) {
    this.#park = park
  }

  async add(record: RejectedRecord): Promise<void> {
    if (this.#park === null) throw rejectionError(record)
    this.#records.push(record)
    if (this.#records.length >= resourceLimits.parkedAtOnce) await this.keep()
  }

  async keep(): Promise<void> {
    const records = this.#records
    this.#records = []
    if (records.length > 0) await this.#park?.(records)
  }
}

/** Converts a record that does not fit to an error of its message. */
function rejectionError(rejected: RejectedRecord): DeliveryError {
  const { code, message, seq } = rejected
  return new DeliveryError('permanent', code, message, {
    fault: 'records',
    failedSeq: seq,
    rejected,
  })
}

/** Rows of a file that are encoded together. */
class RowGroup {
  readonly columns: readonly ParquetColumn[]
  readonly #slots: Map<string, number>
  readonly #found: (string | undefined)[]
  readonly #row: Cell[]
  readonly #cells: readonly ColumnCells[]
  #characters = 0
  #rowCharacters = 0
  rows = 0

  constructor(columns: readonly ParquetColumn[]) {
    this.columns = columns
    const keys = columns.flatMap(({ source }) => (source.kind === 'key' ? [source.key] : []))
    this.#slots = new Map([...new Set(keys)].map((key, slot) => [key, slot]))
    this.#found = new Array(this.#slots.size)
    this.#row = new Array(columns.length)
    this.#cells = columns.map(({ kind }) => (isText(kind) ? new TextCells() : new PlainCells()))
  }

  /** True if the current row fits. A row that is larger than a group gets one of its own. */
  get hasRoom(): boolean {
    const { parquetGroupBytes, parquetGroupCells } = resourceLimits
    if (this.rows === 0) return true
    return (
      this.#characters + this.#rowCharacters <= parquetGroupBytes &&
      (this.rows + 1) * this.columns.length <= parquetGroupCells
    )
  }

  clear(): void {
    for (const cells of this.#cells) cells.clear()
    this.#characters = 0
    this.rows = 0
  }

  /** Reads the next row. If the record does not fit, returns the rejection, and there is no row to add. */
  read(record: string, place: Place): RejectedRecord | null {
    this.#rowCharacters = 0
    pickMembers(record, this.#slots, this.#found)
    for (const [at, column] of this.columns.entries()) {
      const json = column.source.kind === 'key' ? this.#found[this.#slots.get(column.source.key)!] : undefined
      const cell = this.#cell(column, json, place)
      if (cell instanceof Misfit) return rejectedRecord(cell, column, json, place)
      this.#row[at] = cell
      this.#rowCharacters += typeof cell === 'string' ? cell.length : 8
    }
    return null
  }

  /** Adds the current row. */
  add(): void {
    for (const [at, cell] of this.#row.entries()) this.#cells[at]!.add(cell)
    this.#characters += this.#rowCharacters
    this.rows += 1
  }

  /** The writer takes one column after another, so that only the texts of one column are strings at any time. */
  data(): { name: string; data: Cell[]; statistics: boolean }[] {
    const cells = this.#cells
    // The writer counts the rows of the first column before it writes any.
    const first = cells[0]!.all()
    return this.columns.map(({ name, kind }, at) => ({
      name,
      get data() {
        return at === 0 ? first : cells[at]!.all()
      },
      // Statistics of JSON columns would hold whole values, without a benefit for readers.
      statistics: kind !== 'json',
    }))
  }

  #cell(column: ParquetColumn, json: string | undefined, place: Place): Cell | Misfit {
    switch (column.source.kind) {
      case 'received_at':
        return receivedAtCell(column.kind, place.receivedMs)
      case 'generated_id':
        return generatedId(place.msgId, place.recordIndex)
      case 'key':
        return cellOf(column, json)
    }
  }
}

function rejectedRecord(
  { code, message }: Misfit,
  { name }: ParquetColumn,
  json: string | undefined,
  { seq, recordIndex }: Place,
): RejectedRecord {
  const value = json?.startsWith('"') ? stringValue(json) : json
  const shown =
    value === undefined ? {} : { value: cutToCharacters(value, resourceLimits.rejectedValueCharacters) }
  return { seq, recordIndex, code, message, column: name, ...shown }
}

const elements: Record<ParquetKind, Omit<SchemaElement, 'name'>> = {
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  // See `withOlderNames`.
  json: { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } },
  boolean: { type: 'BOOLEAN' },
  double: { type: 'DOUBLE' },
  timestamp: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
}

function schemaOf(columns: readonly ParquetColumn[]): SchemaElement[] {
  const leaves = columns.map(({ name, kind, isRequired }): SchemaElement => {
    return { name, repetition_type: isRequired ? 'REQUIRED' : 'OPTIONAL', ...elements[kind] }
  })
  return [{ name: 'schema', num_children: leaves.length }, ...leaves]
}

/**
 * Adds the type by its older name, for readers that do not support logical types. It is added at the end: with this
 * type the writer would parse and re-serialize JSON values.
 */
function withOlderNames(schema: readonly SchemaElement[]): SchemaElement[] {
  return schema.map((element) =>
    element.logical_type?.type === 'JSON' ? { ...element, converted_type: 'JSON' } : element,
  )
}

async function compressionOf(name: Compression): Promise<Pick<WriterOptions, 'codec' | 'compressors'>> {
  const codecs: Record<Compression, Codec> = {
    zstd: 'ZSTD',
    snappy: 'SNAPPY',
    gzip: 'GZIP',
    none: 'UNCOMPRESSED',
  }
  const codec = codecs[name]
  if (name === 'gzip') return { codec, compressors: { GZIP: (page) => gzipSync(page, { level: 6 }) } }
  if (name !== 'zstd') return { codec }
  const { init, compress } = await import('@bokuweb/zstd-wasm')
  zstdReady ??= init().catch((error) => {
    zstdReady = undefined
    throw error
  })
  await zstdReady
  return { codec, compressors: { ZSTD: (page) => compress(page, 3) } }
}

let zstdReady: Promise<void> | undefined
