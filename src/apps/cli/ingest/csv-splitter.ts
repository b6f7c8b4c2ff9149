/**
 * Splits CSV (RFC 4180) and converts each row to a JSON object, from bytes to bytes. A value is never decoded to a
 * string unless its column has a type.
 *
 *   row bytes ──scan: where each value begins and ends──▶ ends of the values ──write──▶ {"column":"value",…}
 *
 * It is not a package, because resuming needs the byte offset after each row. csv-parse 7 with offsets (`info`) took
 * 6.4 µs of CPU for a row of 90 bytes and reached 155,000 rows/s alone on an idle core. The goal is half of the rate of
 * arrays, together with compression, HTTP and the daemon. papaparse counts characters, not bytes.
 *
 * A row that is not valid is an invalid piece, and the next line begins the next row. Only a row that does not end
 * within `maxRowBytes` ends the input.
 */
import { isUtf8 } from 'node:buffer'
import { commandFailure, Failure } from '../../client/failure.ts'
import { type CsvColumn, type CsvOptions, columnsOf, delimiterOf, jsonOf } from './csv-columns.ts'
import { fromTheStart, type InputPiece, type Splitter, type StartAt } from './input.ts'

/** A longer row is an error. The daemon accepts 10 MiB in a request, unless its setting is raised. */
const maxRowBytes = 16 * 1024 * 1024
const maxColumns = 10_000
/** The length of `head`; a shorter one is the complete input. */
export const headBytes = 64 * 1024
const arenaBytes = 1024 * 1024
/** The longest escape of one byte in JSON: `\u0001`. */
const longestEscape = 6
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

const quote = 0x22
const backslash = 0x5c
const newline = 0x0a
const carriageReturn = 0x0d
const [openBrace, closeBrace, letterU] = [0x7b, 0x7d, 0x75]
const hexDigits = Buffer.from('0123456789abcdef')
/** The letter after the backslash for a byte below 0x20. 0: it needs `\u00XX`. */
const shortEscapes = new Uint8Array(32)
for (const [byte, letter] of [
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
] as const) {
  shortEscapes[byte] = letter.charCodeAt(0)
}

/** The result of scanning one row. */
interface Row {
  /** The offset after its line break in the bytes. */
  end: number
  /** The offset after its last value. */
  textEnd: number
  values: number
  /** Line breaks inside quotation marks. */
  innerBreaks: number
  isAscii: boolean
  fault: string | null
}

export class CsvSplitter implements Splitter {
  readonly insideArray = false
  readonly #options: CsvOptions
  readonly #name: string
  #columns: CsvColumn[] | null
  #delimiter: number
  /** The bytes of the incomplete row, and their offset in the input. */
  #held: Buffer = Buffer.alloc(0)
  #offset: number
  #lines: number
  /** Begin and end of each value of the scanned row, and 1 if it was in quotation marks, 2 if those contain `""`. */
  #begins = new Int32Array(256)
  #ends = new Int32Array(256)
  #quoted = new Uint8Array(256)
  /** The offset after the value that is scanned; for one in quotation marks, after the closing one. */
  #valueEnd = 0
  readonly #row: Row = { end: 0, textEnd: 0, values: 0, innerBreaks: 0, isAscii: true, fault: null }
  #arena = Buffer.alloc(0)
  #arenaAt = 0
  #failure: Failure | null = null
  #headerLine: Buffer | null = null

  /** `head` is the beginning of the input, for a start in the middle. */
  constructor(name: string, options: CsvOptions, start: StartAt = fromTheStart, head: Buffer | null = null) {
    this.#name = name
    this.#options = options
    this.#offset = 0
    this.#lines = 0
    this.#delimiter = options.delimiter ?? 0
    this.#columns = options.header === null ? null : columnsOf(options.header, options)
    if (start.offset > 0 && head !== null) {
      this.#split(head, head.length < headBytes)
      this.#held = Buffer.alloc(0)
      if (this.#columns === null) throw this.#tooLong(false)
    }
    this.#offset = start.offset
    this.#lines = start.lines
  }

  /** With its line break. Null: the input has none. */
  get headerLine(): Buffer | null {
    return this.#headerLine
  }

  push(chunk: Buffer): InputPiece[] {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    return this.#split(bytes, false)
  }

  finish(): InputPiece[] {
    const bytes = this.#held
    this.#held = Buffer.alloc(0)
    return this.#split(bytes, true)
  }

  /** An error is thrown by the call after the one that returned the rows before it. */
  #split(bytes: Buffer, isLast: boolean): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    const pieces: InputPiece[] = []
    let from = this.#offset === 0 && bytes.subarray(0, 3).equals(byteOrderMark) ? 3 : 0
    this.#offset += from
    try {
      while (
        from < bytes.length &&
        this.#knowsDelimiter(bytes, from, isLast) &&
        this.#scan(bytes, from, isLast)
      ) {
        const piece = this.#take(bytes, from)
        if (piece !== null) pieces.push(piece)
        from = this.#row.end
      }
      if (bytes.length - from > maxRowBytes) throw this.#tooLong(bytes[from] === quote)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      this.#failure = error
      if (pieces.length === 0) throw error
    }
    // Copied, so that it does not keep a large chunk in memory.
    if (!isLast) this.#held = Buffer.from(bytes.subarray(from))
    return pieces
  }

  /** Detects the delimiter in the first line. False: more input is needed. */
  #knowsDelimiter(bytes: Buffer, from: number, isLast: boolean): boolean {
    if (this.#delimiter === 0) this.#delimiter = delimiterOf(bytes.subarray(from), isLast) ?? 0
    return this.#delimiter !== 0
  }

  #tooLong(isQuoted: boolean): Failure {
    const limit = `${maxRowBytes / 1024 / 1024} MiB`
    return commandFailure(
      `${this.#name}, line ${this.#lines + 1}: the row does not end within ${limit}; everything before it is accepted`,
      isQuoted || this.#lines > 0
        ? 'a closing quotation mark is probably missing in that line; correct it and run the same command again'
        : 'the input must be CSV with a header line; for another format add --format',
    )
  }

  /** The row from `from`, whose scan is in `#row`. Null: a blank line, or the header. */
  #take(bytes: Buffer, from: number): InputPiece | null {
    const { end, textEnd, values, innerBreaks, isAscii } = this.#row
    const line = this.#lines + 1
    this.#lines += innerBreaks + (end > textEnd ? 1 : 0)
    this.#offset += end - from
    if (values === 1 && textEnd === from) return null
    const original = bytes.subarray(from, textEnd)
    if (this.#columns === null) {
      this.#columns = this.#header(bytes, line)
      this.#headerLine = Buffer.concat([original, Buffer.from('\n')])
      return null
    }
    let { fault } = this.#row
    const expected = this.#columns.length
    if (fault === null && values !== expected) fault = `it has ${values} values, and the header ${expected}`
    if (fault === null && !isAscii && !isUtf8(original)) fault = 'it is not valid UTF-8'
    const place = { line, end: this.#offset, linesBeforeEnd: this.#lines }
    const record = fault ?? this.#write(bytes, this.#columns, textEnd - from)
    if (typeof record === 'string') return { kind: 'invalid', bytes: original, reason: record, ...place }
    return { kind: 'record', bytes: record, original, ...place }
  }

  #header(bytes: Buffer, line: number): CsvColumn[] {
    const { values, fault, isAscii } = this.#row
    const names: string[] = []
    for (let index = 0; index < values; index += 1) names.push(this.#text(bytes, index))
    const problem =
      fault ?? (isAscii || isUtf8(bytes.subarray(0, this.#row.end)) ? null : 'it is not valid UTF-8')
    if (problem === null) return columnsOf(names, this.#options)
    throw commandFailure(
      `${this.#name}, line ${line}: the header line cannot be read: ${problem}`,
      'correct it, or name the columns with --columns',
    )
  }

  #text(bytes: Buffer, index: number): string {
    const text = bytes.toString('utf8', this.#begins[index], this.#ends[index])
    return this.#quoted[index] === 2 ? text.replaceAll('""', '"') : text
  }

  /** Finds the values of the row that starts at `from`. False: its end is not in the bytes. */
  #scan(bytes: Buffer, from: number, isLast: boolean): boolean {
    const row = this.#row
    row.values = 0
    row.innerBreaks = 0
    row.isAscii = true
    row.fault = null
    let at = from
    for (;;) {
      at = this.#scanValue(bytes, at)
      if (at >= bytes.length && !isLast) return false
      const isEnd = at >= bytes.length || bytes[at] === newline
      this.#endValue(bytes, at, isEnd)
      if (isEnd) return true
      at += 1
    }
  }

  /** Returns the offset of the delimiter or line break after the value that begins at `start`, or the end of the bytes. */
  #scanValue(bytes: Buffer, start: number): number {
    const row = this.#row
    const index = row.values
    const { length } = bytes
    const delimiter = this.#delimiter
    if (index >= this.#begins.length) this.#growValues()
    let at = start
    this.#begins[index] = start
    this.#quoted[index] = 0
    if (bytes[start] === quote) at = this.#scanQuoted(bytes, start, index)
    this.#valueEnd = at
    let seen = 0
    while (at < length) {
      const byte = bytes[at] as number
      if (byte === delimiter || byte === newline) break
      if (byte === quote) row.fault ??= 'a quotation mark is in the middle of a value'
      seen |= byte
      at += 1
    }
    if (seen > 0x7f) row.isAscii = false
    return at
  }

  #endValue(bytes: Buffer, at: number, isEnd: boolean): void {
    const row = this.#row
    const index = row.values
    const end = isEnd && at > this.#valueEnd && bytes[at - 1] === carriageReturn ? at - 1 : at
    if (this.#quoted[index] === 0) this.#ends[index] = end
    else if (end > this.#valueEnd) row.fault ??= 'text follows a closing quotation mark'
    row.values += 1
    if (row.values > maxColumns) row.fault ??= `it has more than ${maxColumns} values`
    row.textEnd = end
    row.end = Math.min(at + 1, bytes.length)
  }

  /** Returns the offset after the closing quotation mark of the value at `at`, or the end of the bytes. */
  #scanQuoted(bytes: Buffer, at: number, index: number): number {
    const row = this.#row
    let kind = 1
    let seen = 0
    for (let next = at + 1; next < bytes.length; next += 1) {
      const byte = bytes[next] as number
      seen |= byte
      if (byte === newline) row.innerBreaks += 1
      if (byte !== quote) continue
      if (bytes[next + 1] === quote) {
        kind = 2
        next += 1
        continue
      }
      if (seen > 0x7f) row.isAscii = false
      this.#begins[index] = at + 1
      this.#ends[index] = next
      this.#quoted[index] = kind
      return next + 1
    }
    row.fault ??= 'a quotation mark is not closed'
    this.#ends[index] = bytes.length
    this.#quoted[index] = kind
    return bytes.length
  }

  #growValues(): void {
    const grown = (old: Int32Array) => {
      const next = new Int32Array(old.length * 2)
      next.set(old)
      return next
    }
    this.#begins = grown(this.#begins)
    this.#ends = grown(this.#ends)
    const quoted = new Uint8Array(this.#quoted.length * 2)
    quoted.set(this.#quoted)
    this.#quoted = quoted
  }

  /** The JSON object of the scanned row, or why a value does not have the type of its column. */
  #write(bytes: Buffer, columns: readonly CsvColumn[], rowBytes: number): Buffer | string {
    this.#reserve(columns, rowBytes)
    const out = this.#arena
    const start = this.#arenaAt
    let to = start
    out[to++] = openBrace
    for (let index = 0; index < columns.length; index += 1) {
      const { prefix, type, name } = columns[index] as CsvColumn
      for (let at = 0; at < prefix.length; at += 1) out[to++] = prefix[at] as number
      if (type === 'string' && !this.#isNull(bytes, index)) {
        to = this.#writeString(bytes, index, to)
        continue
      }
      const json =
        type === 'string' || this.#isNull(bytes, index) ? 'null' : jsonOf(type, this.#text(bytes, index))
      if (json === null)
        return `the value of ${JSON.stringify(name)} is not ${type === 'json' ? 'JSON' : `a ${type}`}`
      to += out.write(json, to, 'utf8')
    }
    out[to++] = closeBrace
    this.#arenaAt = to
    return out.subarray(start, to)
  }

  #isNull(bytes: Buffer, index: number): boolean {
    const { nullText } = this.#options
    if (nullText === null || this.#quoted[index] !== 0) return false
    return bytes.subarray(this.#begins[index], this.#ends[index]).equals(nullText)
  }

  #writeString(bytes: Buffer, index: number, start: number): number {
    const out = this.#arena
    const end = this.#ends[index] as number
    const isDoubled = this.#quoted[index] === 2
    let to = start
    out[to++] = quote
    for (let at = this.#begins[index] as number; at < end; at += 1) {
      const byte = bytes[at] as number
      if (byte >= 0x20 && byte !== quote && byte !== backslash) {
        out[to++] = byte
        continue
      }
      out[to++] = backslash
      if (byte >= 0x20) {
        out[to++] = byte
        if (byte === quote && isDoubled) at += 1
        continue
      }
      const letter = shortEscapes[byte] as number
      if (letter !== 0) out[to++] = letter
      else {
        out[to++] = letterU
        out[to++] = 0x30
        out[to++] = 0x30
        out[to++] = hexDigits[byte >> 4] as number
        out[to++] = hexDigits[byte & 15] as number
      }
    }
    out[to++] = quote
    return to
  }

  /** Makes room for the longest JSON of the row. Older records keep the memory they are in. */
  #reserve(columns: readonly CsvColumn[], rowBytes: number): void {
    let keys = 2
    for (const { prefix } of columns) keys += prefix.length + 4
    const needed = keys + rowBytes * longestEscape
    if (this.#arena.length - this.#arenaAt >= needed) return
    this.#arena = Buffer.allocUnsafeSlow(Math.max(arenaBytes, needed))
    this.#arenaAt = 0
  }
}
