/**
 * Body bytes to records: checked and looked at, never rewritten. JSON.parse runs once, to validate and to see the
 * keys; what is stored is each record's own text, found again by its bounds.
 *
 * Text must be valid UTF-8. A byte order mark is skipped (RFC 8259, section 8.1, allows it). An escaped lone surrogate
 * is only text inside a string here, and is kept as sent.
 */
import { isUtf8 } from 'node:buffer'
import { ApiError } from '../contract/errors.ts'
import { maxDepth, type Scan, scanJson, skipWhiteSpace } from './scan.ts'

export type JsonRecord = Record<string, unknown>

export interface ParsedBody {
  bytes: Buffer
  /** As many as there are pairs in `bounds`, in the same order. */
  records: JsonRecord[]
  /** Start and end (exclusive) of each record's text in `bytes`, in pairs. */
  bounds: number[]
  hasNewlines: boolean
}

/** One object or an array of objects. Throws `empty_payload`, `invalid_payload`. */
export function parseJsonBody(bytes: Buffer): ParsedBody {
  requireUtf8(bytes)
  const start = skipWhiteSpace(bytes, afterByteOrderMark(bytes), bytes.length)
  if (start === bytes.length) throw new ApiError('empty_payload')
  const scan = scanJson(bytes, start, bytes.length)
  requireShallow(scan, '')
  const value = parseText(bytes.toString('utf8', start), 'The body is not valid JSON')
  const records = scan.isArray ? requireRecords(value) : [requireRecord(value)]
  return { bytes, records, bounds: scan.bounds, hasNewlines: scan.hasNewlines }
}

/** One object a line, blank lines skipped (contract "Ingest", `application/x-ndjson`). Errors name the line. */
export function parseNdjsonBody(bytes: Buffer): ParsedBody {
  requireUtf8(bytes)
  const parsed: ParsedBody = { bytes, records: [], bounds: [], hasNewlines: false }
  let line = 0
  for (let start = afterByteOrderMark(bytes); start < bytes.length; ) {
    line++
    const newline = bytes.indexOf(0x0a, start)
    const end = newline < 0 ? bytes.length : newline
    if (skipWhiteSpace(bytes, start, end) < end) parseLine(parsed, start, end, line)
    start = end + 1
  }
  if (parsed.records.length === 0) throw new ApiError('empty_payload')
  return parsed
}

function parseLine(parsed: ParsedBody, start: number, end: number, line: number): void {
  const { bytes } = parsed
  const scan = scanJson(bytes, start, end)
  requireShallow(scan, `Line ${line}: `)
  const value = parseText(bytes.toString('utf8', start, end), `Line ${line} is not valid JSON`)
  if (!isRecord(value)) {
    throw new ApiError('invalid_payload', {
      message: `Line ${line} is ${describe(value)}: every line must be one JSON object.`,
    })
  }
  parsed.records.push(value)
  parsed.bounds.push(scan.bounds[0]!, scan.bounds[1]!)
  // The carriage return of a CRLF line end lies outside the record's bounds; one inside them is white space.
  if (scan.hasNewlines) parsed.hasNewlines = true
}

/** Whether a JSON text nests deeper than `maxDepth`; for bodies that are not records. */
export function isTooDeep(bytes: Uint8Array): boolean {
  return scanJson(bytes, 0, bytes.length).tooDeep
}

function requireUtf8(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw new ApiError('invalid_payload', { message: 'The body is not valid UTF-8.' })
}

function requireShallow(scan: Scan, where: string): void {
  if (scan.tooDeep) {
    throw new ApiError('invalid_payload', {
      message: `${where}A record is nested more than ${maxDepth} levels deep.`,
    })
  }
}

function afterByteOrderMark(bytes: Buffer): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
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
