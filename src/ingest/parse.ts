/**
 * Parses a body into records without rewriting them. JSON.parse runs once, for validation and for the keys. The stored
 * text of each record is its original text, located by bounds, which one pass over the bytes determines first:
 *
 *   [ {"a":1} , {"b":[2]} ]      bounds: 2 9 12 21   (start and end of each top-level object)
 *
 * Text must be valid UTF-8. A byte order mark is skipped (RFC 8259, section 8.1, allows it). An escaped lone surrogate
 * is ordinary text inside a string and is kept as sent.
 *
 * The same pass counts records, keys and depth before JSON.parse creates objects: a few compressed kilobytes can hold
 * millions of records.
 */
import { isUtf8 } from 'node:buffer'
import { ApiError } from '../contract/errors.ts'
import { afterByteOrderMark, lineFeed, openBracket, skipWhiteSpace } from '../log/record-text.ts'

export type JsonRecord = Record<string, unknown>

export interface ParsedBody {
  bytes: Buffer
  /** As many as there are pairs in `bounds`, in the same order. */
  records: JsonRecord[]
  /** Start and end (exclusive) of each record's text in `bytes`, in pairs. */
  bounds: number[]
  hasNewlines: boolean
}

/** The limits of a body. */
export interface BodyLimits {
  maxRecords: number
  /** The keys of one record, including those of nested objects. */
  maxKeys: number
  /** Above this number nothing is parsed and the result is null: the body is parsed in another thread. */
  maxValues: number
}

/** One object or an array of objects. Throws `empty_payload`, `invalid_payload`, `payload_too_large`. */
export function parseJsonBody(bytes: Buffer, limits: BodyLimits): ParsedBody | null {
  requireUtf8(bytes)
  const start = skipWhiteSpace(bytes, afterByteOrderMark(bytes), bytes.length)
  if (start === bytes.length) throw new ApiError('empty_payload')
  const scan = scanJson(bytes, start, bytes.length, limits)
  if (scan.hasTooManyRecords) throw tooManyRecords(limits.maxRecords)
  requireModest(scan, limits, 0, '')
  if (scan.values > limits.maxValues) return null
  const value = parseText(bytes.toString('utf8', start), 'The body is not valid JSON')
  const records = scan.isArray ? requireRecords(value) : [requireRecord(value)]
  return { bytes, records, bounds: scan.bounds, hasNewlines: scan.hasNewlines }
}

/** One object per line, blank lines skipped (docs/dev/contract.md#body). Errors name the line. */
export function parseNdjsonBody(bytes: Buffer, limits: BodyLimits): ParsedBody | null {
  requireUtf8(bytes)
  const parsed: ParsedBody = { bytes, records: [], bounds: [], hasNewlines: false }
  let values = 0
  const first = afterByteOrderMark(bytes)
  if (countLines(bytes, first, limits.maxRecords) > limits.maxRecords) throw tooManyRecords(limits.maxRecords)
  let line = 0
  for (let start = first; start < bytes.length; ) {
    line++
    const newline = bytes.indexOf(lineFeed, start)
    const end = newline < 0 ? bytes.length : newline
    if (skipWhiteSpace(bytes, start, end) < end) {
      const scan = scanJson(bytes, start, end, limits)
      requireModest(scan, limits, parsed.records.length, `Line ${line}: `)
      values += scan.values + lineValues
      if (values > limits.maxValues) return null
      parsed.records.push(parseLine(bytes, start, end, line))
      parsed.bounds.push(scan.bounds[0]!, scan.bounds[1]!)
      // The carriage return of a CRLF line end is outside the record's bounds; others are white space within it.
      if (scan.hasNewlines) parsed.hasNewlines = true
    }
    start = end + 1
  }
  if (parsed.records.length === 0) throw new ApiError('empty_payload')
  return parsed
}

/** The cost of parsing a line, in values, in addition to its content. */
const lineValues = 2

/** The shortest line with a record: `{}` and its newline. */
const minLineBytes = 3

/** Counts lines that are not blank, and stops above `enough`. */
function countLines(bytes: Buffer, start: number, enough: number): number {
  if ((bytes.length - start + 1) / minLineBytes <= enough) return 0
  let lines = 0
  let isBlank = true
  for (let at = start; at < bytes.length && lines <= enough; at++) {
    const byte = bytes[at]!
    if (byte === 0x0a) isBlank = true
    else if (isBlank && byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) {
      lines++
      isBlank = false
    }
  }
  return lines
}

function parseLine(bytes: Buffer, start: number, end: number, line: number): JsonRecord {
  const value = parseText(bytes.toString('utf8', start, end), `Line ${line} is not valid JSON`)
  if (!isRecord(value)) {
    throw new ApiError('invalid_payload', {
      message: `Line ${line} is ${describe(value)}: every line must be one JSON object.`,
    })
  }
  return value
}

function requireUtf8(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw new ApiError('invalid_payload', { message: 'The body is not valid UTF-8.' })
}

/** Checks depth and keys of each scanned record. `before` is the number of earlier records in the body. */
function requireModest(scan: Scan, { maxKeys }: BodyLimits, before: number, where: string): void {
  if (scan.tooDeep) {
    throw new ApiError('invalid_payload', {
      message: `${where}A record is nested more than ${maxDepth} levels deep.`,
    })
  }
  if (scan.recordWithTooManyKeys >= 0) {
    const index = before + scan.recordWithTooManyKeys
    throw new ApiError('invalid_payload', {
      message: `${where}Record ${index} has more than ${maxKeys} keys, including nested ones, which is the limit.`,
      details: { limit: 'ingest.max_keys_per_record', limit_value: maxKeys, record_index: index },
    })
  }
}

function tooManyRecords(maxRecords: number): ApiError {
  return new ApiError('payload_too_large', {
    message: `More than ${maxRecords} records in one request, which is the limit: send fewer at once.`,
    details: { limit: 'ingest.max_records_per_request', limit_value: maxRecords },
  })
}

function parseText(text: string, complaint: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const reason = error instanceof SyntaxError ? `: ${error.message}` : ''
    throw new ApiError('invalid_payload', { message: `${complaint}${reason}.` })
  }
}

function requireRecord(value: unknown): JsonRecord {
  if (isRecord(value)) return value
  throw new ApiError('invalid_payload', {
    message: `The body is ${describe(value)}: it must be one JSON object or an array of objects.`,
  })
}

function requireRecords(value: unknown): JsonRecord[] {
  if (!Array.isArray(value)) throw new ApiError('invalid_payload')
  if (value.length === 0) throw new ApiError('empty_payload')
  for (let index = 0; index < value.length; index++) {
    if (!isRecord(value[index])) {
      throw new ApiError('invalid_payload', {
        message: `Element ${index} of the array is ${describe(value[index])}: every element must be an object.`,
      })
    }
  }
  return value
}

function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return `a ${typeof value}`
}

/** The nesting limit of a record; an array around the records does not count. */
export const maxDepth = 100

interface Scan {
  /** Start and end (exclusive) of each record, in pairs: the text itself, or the elements of its top-level array. */
  bounds: number[]
  isArray: boolean
  hasNewlines: boolean
  tooDeep: boolean
  /** The scan stopped at the limit of records. */
  hasTooManyRecords: boolean
  /** Index of the first such record; -1 when there is none. */
  recordWithTooManyKeys: number
  /** The number of values in the text, including nested ones; it can be one too low. */
  values: number
}

/**
 * Where each record begins and ends, how deep the nesting goes, how many elements, keys and values there are, and
 * whether raw newlines are in the white space. It understands only strings and punctuation: the result is correct for
 * every text that JSON.parse accepts; for other text only the limits hold. Depth is checked here because JSON.parse
 * accepts any depth, but code that walks the value does not. Measured: 50 KB with 100 records, 46 µs.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every byte of a body, in which calls cost
export function scanJson(
  bytes: Uint8Array,
  start: number,
  end: number,
  limits: Pick<BodyLimits, 'maxRecords' | 'maxKeys'>,
): Scan {
  const bounds: number[] = []
  const { maxRecords, maxKeys } = limits
  let hasNewlines = false
  let tooDeep = false
  let at = skipWhiteSpace(bytes, start, end)
  const isArray = bytes[at] === openBracket
  const base = isArray ? 1 : 0
  const deepest = base + maxDepth
  let depth = 0
  let recordStart = -1
  let elements = 1
  let values = 0
  let colons = 0
  let colonsBefore = 0
  let recordWithTooManyKeys = -1
  // Literals are used, and the string's end is found here: a constant of another module is read from memory at every
  // byte, and its functions are not always inlined (Node.js 20, 34 KB of records: 80 µs instead of 104 µs).
  for (; at < end; at++) {
    const byte = bytes[at]
    if (byte === 0x22 /* " */) {
      for (at++; at < end && bytes[at] !== 0x22; at++) {
        if (bytes[at] === 0x5c /* \ */) at++
      }
    } else if (byte === 0x2c /* , */) {
      values++
      if (depth === base && ++elements > maxRecords) break
    } else if (byte === 0x3a /* : */) {
      colons++
    } else if (byte === 0x7b /* { */ || byte === 0x5b /* [ */) {
      if (byte === 0x7b && depth === base) {
        recordStart = at
        colonsBefore = colons
      }
      depth++
      values++
      if (depth > deepest) tooDeep = true
    } else if (byte === 0x7d /* } */ || byte === 0x5d /* ] */) {
      depth--
      if (depth === base && recordStart >= 0) {
        if (colons - colonsBefore > maxKeys && recordWithTooManyKeys < 0)
          recordWithTooManyKeys = bounds.length / 2
        bounds.push(recordStart, at + 1)
        recordStart = -1
      }
    } else if (byte === 0x0a || byte === 0x0d) hasNewlines = true
  }
  const hasTooManyRecords = elements > maxRecords
  return { bounds, isArray, hasNewlines, tooDeep, hasTooManyRecords, recordWithTooManyKeys, values }
}
