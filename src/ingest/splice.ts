/**
 * The stored body: each record's own text with the enrichment spliced in, one record a line.
 *
 *   {"n":1.10}  +  "ingest_ts":"…"   →   {"n":1.10,"ingest_ts":"…"}
 *
 * Nothing a client sent is ever serialized again: numbers, key order, spacing and duplicate keys survive. Only two
 * things change: raw newlines (white space in JSON) become spaces, and a member whose key is an enrichment key goes,
 * however it is spelled and however often it stands there, because the server's value stands (contract "Delivery").
 */
import assert from 'node:assert'
import type { Enrichment } from './enrich.ts'
import type { ParsedBody } from './parse.ts'
import { endOfString, skipWhiteSpace } from './scan.ts'

const comma = 0x2c
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/** NDJSON, `\n` between records and none at the end. */
export function spliceRecords(parsed: ParsedBody, enrichment: Enrichment): Buffer {
  const { bytes, records, bounds } = parsed
  assert(bounds.length === records.length * 2, 'every record has its bounds')
  const insertion = Buffer.from(enrichment.text)
  const out = Buffer.allocUnsafe(longestOutput(bounds, insertion.length))
  let at = 0
  for (let index = 0; index < records.length; index++) {
    const start = bounds[index * 2]!
    const end = bounds[index * 2 + 1]!
    if (index > 0) out[at++] = lineFeed
    const record = records[index]!
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
  out[next++] = 0x7d
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

/** The record without every top-level member named by `keys`: the texts between its top-level commas, less those. */
function withoutMembers(bytes: Buffer, start: number, end: number, keys: readonly string[]): RecordText {
  const kept: Buffer[] = []
  let from = start + 1
  let depth = 0
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at]
    if (byte === 0x22) at = endOfString(bytes, at, end)
    else if (byte === 0x7b || byte === 0x5b) depth++
    else if (depth > 0 && (byte === 0x7d || byte === 0x5d)) depth--
    else if (depth === 0 && (byte === comma || byte === 0x7d)) {
      const member = bytes.subarray(from, at)
      if (!keys.includes(keyOf(member))) kept.push(member)
      from = at + 1
    }
  }
  const text = Buffer.concat([
    Buffer.from('{'),
    ...kept.flatMap((member, index) => (index === 0 ? [member] : [Buffer.from(','), member])),
    Buffer.from('}'),
  ])
  return { bytes: text, start: 0, end: text.length, isEmpty: kept.length === 0 }
}

/** Decoded, so that an escaped spelling is the same key. */
function keyOf(member: Buffer): string {
  const open = skipWhiteSpace(member, 0, member.length)
  const key: unknown = JSON.parse(member.toString('utf8', open, endOfString(member, open, member.length) + 1))
  assert(typeof key === 'string', 'a member begins with its key')
  return key
}

/** Every newline but the ones that separate records, which are known by following a closing brace outside a record. */
function blankNewlines(body: Buffer, recordCount: number): void {
  let depth = 0
  let separators = 0
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]
    if (byte === 0x22) at = endOfString(body, at, body.length)
    else if (byte === 0x7b || byte === 0x5b) depth++
    else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === carriageReturn || byte === lineFeed) {
      if (depth === 0) separators++
      else body[at] = space
    }
  }
  assert(separators === recordCount - 1, 'one newline between two records')
}
