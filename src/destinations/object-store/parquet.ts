/**
 * Encodes a batch as one Parquet file. The bytes depend only on the batch and the config: the compressor is the same on every
 * Node.js version, and the file holds no current time.
 *
 *   records ──cells──▶ row group, at most 8 MiB of values or one row ──encode, compress──▶ file
 *               └─ does not fit a column ──▶ rejected, the others continue
 *
 * The thread yields between two row groups, and after every MiB of records read (most of it may be keys without a column), so
 * that other lanes wait for at most one row group.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { pickMembers, recordPlace, recordTexts, stringValue } from '../../log/record-text.ts'
import { Semaphore } from '../../platform/semaphore.ts'
import { type Batch, DeliveryError, type ObjectStoreSpec, type RejectedRecord } from '../driver.ts'
import { cutToCharacters } from '../error-text.ts'
import { generatedId } from '../sql/columns.ts'
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

export interface ParquetFile {
  rowCount: number
  bytes: Buffer
}

interface ParquetOptions {
  /**
   * Receives the records that do not fit, in several calls; if it rejects, the file fails. Null: the first such record is an
   * error.
   */
  park: ((refused: readonly RejectedRecord[]) => Promise<void>) | null
  signal?: AbortSignal
}

interface Place {
  seq: number
  msgId: string
  receivedMs: number
  recordIndex: number
}

/** Files are encoded on the thread of all lanes, and each holds a row group and its pages in memory. */
const encoding = new Semaphore(1)

/**
 * Encodes one file at a time. Rejects with a permanent DeliveryError for a record that does not fit, with an error of the
 * writer, or with the signal's reason.
 */
export function parquetOf(
  batch: Batch,
  spec: ObjectStoreSpec,
  options: ParquetOptions,
): Promise<ParquetFile> {
  const { signal } = options
  return encoding.run(
    () => {
      const file = encoded(batch, spec, options)
      // An encoding can wait long for records to be parked. The next file does not wait for one whose attempt is over.
      return signal === undefined ? file : Promise.race([file, aborted(signal)])
    },
    { signal },
  )
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

async function encoded(
  { messages }: Batch,
  { config, columns, timestampField }: ObjectStoreSpec,
  { park, signal }: ParquetOptions,
): Promise<ParquetFile> {
  const group = new RowGroup(parquetColumns(columns, timestampField))
  const writer = new ByteWriter()
  const file = new ParquetWriter({
    writer,
    schema: schemaOf(group.columns),
    createdBy: 'pipectl',
    ...(await compression(config.compression)),
  })
  let refused: RejectedRecord[] = []
  let rowCount = 0
  const keepRefused = async () => {
    const kept = refused
    refused = []
    await park?.(kept)
    signal?.throwIfAborted()
  }
  const letOthers = async () => {
    await turn()
    signal?.throwIfAborted()
  }
  let readCharacters = 0
  const end = async () => {
    file.write({ columnData: group.data(), rowGroupSize: group.rows })
    rowCount += group.rows
    group.clear()
    await letOthers()
  }
  for (const { text, place } of placedRecords(messages)) {
    const misfit = group.read(text, place)
    if (misfit === null) {
      if (!group.hasRoom) await end()
      group.add()
    } else if (park === null) throw refusalError(misfit)
    else refused.push(misfit)
    if (refused.length >= resourceLimits.parkedAtOnce) await keepRefused()
    readCharacters += text.length
    if (readCharacters < resourceLimits.parquetReadCharacters) continue
    readCharacters = 0
    await letOthers()
  }
  if (refused.length > 0) await keepRefused()
  if (group.rows > 0) await end()
  file.schema = withOlderNames(file.schema)
  file.finish()
  const { buffer, byteOffset, byteLength } = writer.getBytes()
  return { rowCount, bytes: Buffer.from(buffer, byteOffset, byteLength) }
}

function* placedRecords(messages: Batch['messages']): Generator<{ text: string; place: Place }> {
  for (const message of messages) {
    const { seq, msgId, receivedMs } = message
    for (const [at, text] of recordTexts(message.body).entries())
      yield { text, place: { seq, msgId, receivedMs, recordIndex: recordPlace(message, at) } }
  }
}

/** Converts an error of the writer: nothing is stored, and fewer messages may succeed. */
export function encodingError(cause: unknown, { messages }: Batch): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  const what = cause instanceof Error ? cause.message : String(cause)
  const message = `The Parquet object could not be created: ${what}.`
  const isDivisible = messages.length > 1
  return new DeliveryError('transient', 'parquet_failed', message, {
    ...(isDivisible ? { timedOut: 'rolled_back' } : {}),
    cause,
  })
}

/** Converts a record that does not fit to an error of its message. */
function refusalError(refused: RejectedRecord): DeliveryError {
  const { code, message, seq } = refused
  return new DeliveryError('permanent', code, message, {
    fault: 'records',
    failedSeq: seq,
    rejected: refused,
  })
}

/** Rows of a file that are encoded together. */
class RowGroup {
  readonly columns: readonly ParquetColumn[]
  readonly #slots: Map<string, number>
  readonly #found: (string | undefined)[]
  readonly #row: Cell[]
  #cells: Cell[][] = []
  #characters = 0
  #rowCharacters = 0
  rows = 0

  constructor(columns: readonly ParquetColumn[]) {
    this.columns = columns
    const keys = columns.flatMap(({ source }) => (source.kind === 'key' ? [source.key] : []))
    this.#slots = new Map([...new Set(keys)].map((key, slot) => [key, slot]))
    this.#found = new Array(this.#slots.size)
    this.#row = new Array(columns.length)
    this.clear()
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
    this.#cells = this.columns.map(() => [])
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
    for (const [at, cell] of this.#row.entries()) this.#cells[at]!.push(cell)
    this.#characters += this.#rowCharacters
    this.rows += 1
  }

  data(): { name: string; data: Cell[]; statistics: boolean }[] {
    // Statistics of JSON columns would hold whole values, without a benefit for readers.
    return this.columns.map(({ name, kind }, at) => ({
      name,
      data: this.#cells[at]!,
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

/** For readers that do not support logical types. With this type the writer would parse and re-serialize JSON values. */
function withOlderNames(schema: readonly SchemaElement[]): SchemaElement[] {
  return schema.map((element) =>
    element.logical_type?.type === 'JSON' ? { ...element, converted_type: 'JSON' } : element,
  )
}

async function compression(
  name: ObjectStoreSpec['config']['compression'],
): Promise<Pick<WriterOptions, 'codec' | 'compressors'>> {
  const codecs: Record<typeof name, Codec> = {
    zstd: 'ZSTD',
    snappy: 'SNAPPY',
    gzip: 'GZIP',
    none: 'UNCOMPRESSED',
  }
  const codec = codecs[name]
  if (name === 'gzip') return { codec, compressors: { GZIP: (page) => gzipSync(page, { level: 6 }) } }
  if (name !== 'zstd') return { codec }
  const { init, compress } = await import('@bokuweb/zstd-wasm')
  zstdIsThere ??= init().catch((error) => {
    zstdIsThere = undefined
    throw error
  })
  await zstdIsThere
  return { codec, compressors: { ZSTD: (page) => compress(page, 3) } }
}

let zstdIsThere: Promise<void> | undefined
