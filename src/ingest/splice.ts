/**
 * The stored body: each record's own text with the enrichment spliced in, one record per line.
 *
 *   {"n":1.10}  +  "ingest_ts":"…"   →   {"n":1.10,"ingest_ts":"…"}
 *
 * The client's text is never serialized again: numbers, key order, spacing and duplicate keys are kept. Only two things
 * change. Raw newlines (white space in JSON) become spaces. Members with an enrichment key are removed, in any spelling
 * and number, because the server's value takes precedence (docs/dev/contract.md#pipes).
 */
import assert from 'node:assert'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import {
  backslash,
  carriageReturn,
  closeBrace,
  closeBracket,
  comma,
  endOfString,
  lineFeed,
  openBrace,
  openBracket,
  quote,
  skipWhiteSpace,
  space,
  stringValue,
} from '../log/record-text.ts'
import type { ParsedBody } from './parse.ts'

/**
 * Returns NDJSON without a final newline. `tags`: a further member of a record, as JSON text, by its index. Throws `payload_too_large` above the size limit of a message, and errors of
 * `reserve`, which is called with the size before it is allocated: thousands of small records with a long enrichment are
 * much larger than the request.
 */
export function spliceRecords(
  parsed: ParsedBody,
  enrichment: Enrichment,
  reserve: (bytes: number) => void,
  tags: ReadonlyMap<number, string> = noTags,
): Buffer {
  const { bytes, records, bounds } = parsed
  assert(bounds.length === records.length * 2, 'every record has its bounds')
  const common = Buffer.from(enrichment.text)
  const size = longestOutput(bounds, common.length) + tagBytes(tags)
  if (size > resourceLimits.storedBytesPerMessage) throw messageTooLarge(size)
  reserve(size)
  const out = Buffer.allocUnsafe(size)
  let at = 0
  for (let index = 0; index < records.length; index++) {
    const start = bounds[index * 2]!
    const end = bounds[index * 2 + 1]!
    if (index > 0) out[at++] = lineFeed
    const record = records[index]!
    const tag = tags.get(index)
    const insertion = tag === undefined ? common : Buffer.from(joined(enrichment.text, tag))
    if (enrichment.keys.some((key) => Object.hasOwn(record, key))) {
      at = writeRecord(out, at, withoutMembers(bytes, start, end, enrichment.keys), insertion)
    } else {
      at = writeRecord(out, at, { bytes, start, end, isEmpty: isEmpty(record) }, insertion)
    }
  }
  const body = out.subarray(0, at)
  if (parsed.hasNewlines) blankNewlines(body, records.length)
  return body
}

const noTags: ReadonlyMap<number, string> = new Map()

function tagBytes(tags: ReadonlyMap<number, string>): number {
  let bytes = 0
  for (const tag of tags.values()) bytes += Buffer.byteLength(tag) + 1
  return bytes
}

const joined = (a: string, b: string) => (a === '' ? b : `${a},${b}`)

function messageTooLarge(size: number): ApiError {
  return new ApiError('payload_too_large', {
    message: `With the fields that the pipe adds to each record, the request would take up to ${size} bytes in the buffer; the limit is ${resourceLimits.storedBytesPerMessage}. Send fewer records at once.`,
    details: {
      limit: 'stored_bytes_per_message',
      limit_value: resourceLimits.storedBytesPerMessage,
      current: size,
    },
  })
}

interface RecordText {
  bytes: Buffer
  start: number
  end: number
  isEmpty: boolean
}

/** Copies the text up to its closing brace, then the insertion, then the brace. */
function writeRecord(out: Buffer, at: number, record: RecordText, insertion: Buffer): number {
  const { bytes, start, end } = record
  if (insertion.length === 0) return at + bytes.copy(out, at, start, end)
  let next = at + bytes.copy(out, at, start, end - 1)
  if (!record.isEmpty) out[next++] = comma
  next += insertion.copy(out, next)
  out[next++] = closeBrace
  return next
}

function longestOutput(bounds: readonly number[], insertionBytes: number): number {
  let size = 0
  for (let i = 0; i < bounds.length; i += 2) size += bounds[i + 1]! - bounds[i]! + insertionBytes + 2
  return size
}

function isEmpty(record: object): boolean {
  for (const _ in record) return false
  return true
}

/**
 * Returns the record without the top-level members named by `keys`. Runs of kept members are copied as one, because a
 * record can have thousands.
 */
function withoutMembers(bytes: Buffer, start: number, end: number, keys: readonly string[]): RecordText {
  const names = keys.map((key) => ({ text: key, bytes: Buffer.from(key) }))
  const text = Buffer.allocUnsafe(end - start)
  let length = text.write('{', 'latin1')
  const keep = (from: number, to: number) => {
    if (length > 1) text[length++] = comma
    length += bytes.copy(text, length, from, to)
  }
  let runStart = -1
  for (let memberStart = start + 1; memberStart < end; ) {
    const keyStart = skipWhiteSpace(bytes, memberStart, end)
    if (bytes[keyStart] !== quote) break
    const keyEnd = endOfString(bytes, keyStart, end)
    const memberEnd = endOfMember(bytes, keyEnd + 1, end)
    if (!isNamed(bytes, keyStart + 1, keyEnd, names)) {
      if (runStart < 0) runStart = memberStart
    } else if (runStart >= 0) {
      keep(runStart, memberStart - 1)
      runStart = -1
    }
    memberStart = memberEnd + 1
  }
  if (runStart >= 0) keep(runStart, end - 1)
  const isEmpty = length === 1
  text[length++] = closeBrace
  return { bytes: text, start: 0, end: length, isEmpty }
}

/** Index of the comma or closing brace after the member whose key ended before `at`. */
function endOfMember(bytes: Uint8Array, at: number, end: number): number {
  let depth = 0
  for (let i = at; i < end; i++) {
    const byte = bytes[i]
    if (byte === quote) i = endOfString(bytes, i, end)
    else if (byte === openBrace || byte === openBracket) depth++
    else if (depth > 0 && (byte === closeBrace || byte === closeBracket)) depth--
    else if (depth === 0 && (byte === comma || byte === closeBrace)) return i
  }
  return end
}

/**
 * True when the key between the quotes is one of `names`. Escaped keys are decoded, because another spelling is the same
 * key.
 */
function isNamed(
  bytes: Buffer,
  start: number,
  end: number,
  names: readonly { text: string; bytes: Buffer }[],
): boolean {
  for (let at = start; at < end; at++) {
    if (bytes[at] !== backslash) continue
    const key = stringValue(bytes.toString('utf8', start - 1, end + 1))
    return names.some(({ text }) => text === key)
  }
  const length = end - start
  return names.some((name) => name.bytes.length === length && name.bytes.compare(bytes, start, end) === 0)
}

/** Replaces all newlines except those between records, which follow a closing brace outside a record. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every byte of a body, in which calls cost
function blankNewlines(body: Buffer, recordCount: number): void {
  let depth = 0
  let separators = 0
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]
    if (byte === quote) at = endOfString(body, at, body.length)
    else if (byte === openBrace || byte === openBracket) depth++
    else if (byte === closeBrace || byte === closeBracket) depth--
    else if (byte === carriageReturn || byte === lineFeed) {
      if (depth === 0) separators++
      else body[at] = space
    }
  }
  assert(separators === recordCount - 1, 'one newline between two records')
}

/**
 * Enrichment: the members that the pipe adds to every record of a request (docs/dev/contract.md#pipes): timestamp,
 * client IP, seven geo dimensions. All records of one request get the same members, so they are one piece of JSON text.
 */
export interface Enrichment {
  /** The keys it sets, without duplicates. */
  keys: readonly string[]
  /** The members as JSON text, comma-separated, without braces: `"ingest_ts":"2026-…","ingest_ip":"192.0.2.1"`. */
  text: string
}
