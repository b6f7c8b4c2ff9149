/**
 * Rows of tables as bytes, exactly as SQLite stores them: 64-bit integers, -0, text with NUL or invalid UTF-8, blobs.
 *
 *   'PRW1', entries, CRC-32 of all before
 *
 *   entry      1 table     u32 length, JSON of `EncodedTable`; tables are numbered from 0 in this order
 *              2 row       u16 number of the table, a value for each of its columns
 *              3 deletion  u16 number of the table, a value for each column of its key
 *   value      0 null, 1 i64, 2 f64, 3 text (u32 length, bytes), 4 blob (u32 length, bytes)
 *
 * All numbers are little-endian.
 */
import { crc32 } from 'node:zlib'
import { messageOf } from '../../platform/error-code.ts'

/** Encoded rows cannot be applied: they are damaged, or belong to tables of another format. */
export class RowChangesError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'RowChangesError'
  }
}

export interface EncodedTable {
  name: string
  columns: readonly string[]
  /** The columns of the primary key. */
  key: readonly string[]
}

/** A value of a column. Text is its bytes, because JavaScript cannot hold text that is not valid Unicode. */
export type StoredValue =
  | { kind: 'null' }
  | { kind: 'integer'; value: bigint }
  | { kind: 'real'; value: number }
  | { kind: 'text'; bytes: Buffer }
  | { kind: 'blob'; bytes: Buffer }

export interface EncodedRow {
  /** A deletion has only the values of the key. */
  kind: 'row' | 'deletion'
  table: EncodedTable
  values: StoredValue[]
}

const magic = Buffer.from('PRW1')
const checkBytes = 4
const kinds = { table: 1, row: 2, deletion: 3 } as const
const types = { null: 0, integer: 1, real: 2, text: 3, blob: 4 } as const

/** Gathers entries up to a size. */
export class RowEncoder {
  readonly #parts: Buffer[] = [magic]
  readonly #tables = new Map<string, number>()
  readonly #maxBytes: number
  #bytes = magic.length + checkBytes
  #count = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get count(): number {
    return this.#count
  }

  /** False: there is no room for this row. The first one always has room. */
  add(kind: EncodedRow['kind'], table: EncodedTable, values: readonly StoredValue[]): boolean {
    const known = this.#tables.get(table.name)
    const number = known ?? this.#tables.size
    const parts = known === undefined ? [encodeTable(table)] : []
    parts.push(encodeEntry(kinds[kind], number, values))
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    if (this.#count > 0 && this.#bytes + bytes > this.#maxBytes) return false
    this.#tables.set(table.name, number)
    this.#parts.push(...parts)
    this.#bytes += bytes
    this.#count += 1
    return true
  }

  finish(): Buffer {
    const content = Buffer.concat(this.#parts)
    const check = Buffer.alloc(checkBytes)
    check.writeUInt32LE(crc32(content))
    return Buffer.concat([content, check])
  }
}

function encodeTable({ name, columns, key }: EncodedTable): Buffer {
  const json = Buffer.from(JSON.stringify({ name, columns, key }))
  const head = Buffer.alloc(5)
  head.writeUInt8(kinds.table, 0)
  head.writeUInt32LE(json.length, 1)
  return Buffer.concat([head, json])
}

/** One Buffer for the whole entry: several small ones per value cost more than reading the row. */
function encodeEntry(kind: number, table: number, values: readonly StoredValue[]): Buffer {
  const entry = Buffer.allocUnsafe(values.reduce((sum, value) => sum + valueBytes(value), 3))
  entry.writeUInt8(kind, 0)
  entry.writeUInt16LE(table, 1)
  let at = 3
  for (const value of values) {
    entry.writeUInt8(types[value.kind], at)
    if (value.kind === 'integer') entry.writeBigInt64LE(value.value, at + 1)
    if (value.kind === 'real') entry.writeDoubleLE(value.value, at + 1)
    if (value.kind === 'text' || value.kind === 'blob') {
      entry.writeUInt32LE(value.bytes.length, at + 1)
      value.bytes.copy(entry, at + 5)
    }
    at += valueBytes(value)
  }
  return entry
}

function valueBytes(value: StoredValue): number {
  if (value.kind === 'null') return 1
  return 'bytes' in value ? 5 + value.bytes.length : 9
}

/** Throws RowChangesError. The bytes of the values are views into `rows`. */
export function* decodeRows(rows: Buffer): Generator<EncodedRow> {
  const end = rows.length - checkBytes
  if (end < magic.length || !rows.subarray(0, magic.length).equals(magic))
    throw new RowChangesError('these are not encoded rows of metadata')
  if (rows.readUInt32LE(end) !== crc32(rows.subarray(0, end)))
    throw new RowChangesError('the encoded rows are damaged: their checksum is wrong')
  const reader = new EntryReader(rows.subarray(magic.length, end))
  while (!reader.isAtEnd) {
    const entry = reader.next()
    if (entry !== null) yield entry
  }
}

class EntryReader {
  readonly #bytes: Buffer
  readonly #tables: EncodedTable[] = []
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  /** Null: the entry was a table. */
  next(): EncodedRow | null {
    const kind = this.#take(1).readUInt8()
    if (kind === kinds.table) {
      this.#tables.push(asTable(this.#sized()))
      return null
    }
    if (kind !== kinds.row && kind !== kinds.deletion) throw damaged(`an entry of kind ${kind}`)
    const number = this.#take(2).readUInt16LE()
    const table = this.#tables[number]
    if (table === undefined) throw damaged(`a row of table number ${number}`)
    const columns = kind === kinds.row ? table.columns : table.key
    return {
      kind: kind === kinds.row ? 'row' : 'deletion',
      table,
      values: columns.map(() => this.#value()),
    }
  }

  #value(): StoredValue {
    const type = this.#take(1).readUInt8()
    if (type === types.null) return { kind: 'null' }
    if (type === types.integer) return { kind: 'integer', value: this.#take(8).readBigInt64LE() }
    if (type === types.real) return { kind: 'real', value: this.#take(8).readDoubleLE() }
    if (type === types.text) return { kind: 'text', bytes: this.#sized() }
    if (type === types.blob) return { kind: 'blob', bytes: this.#sized() }
    throw damaged(`a value of type ${type}`)
  }

  #sized(): Buffer {
    return this.#take(this.#take(4).readUInt32LE())
  }

  #take(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw damaged('an entry that is cut off')
    const part = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return part
  }
}

function asTable(json: Buffer): EncodedTable {
  try {
    return JSON.parse(json.toString()) as EncodedTable
  } catch (error) {
    throw damaged(`a table that cannot be read: ${messageOf(error)}`, error)
  }
}

function damaged(found: string, cause?: unknown): RowChangesError {
  return new RowChangesError(`the encoded rows are damaged: ${found}`, cause)
}
