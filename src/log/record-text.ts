/**
 * The format of a stored body: each record is the client's original JSON text, one record per line.
 *
 *   {"n":1.10,"ts":"…"}\n{"n":2}\n{}          `\n` between records, none at the end, none inside a record
 *   \n{"n":1.10}\n\n{}                         begins with `\n`: records were deleted, each left an empty line: `erased-body.ts`
 *
 * Ingest replaces raw newlines inside records (white space in JSON) by spaces, so every newline is a boundary and no
 * reader has to parse to find one. Values are never parsed and serialized again: 12345678901234567890 and 1.10 would
 * not survive that. The texts were validated when they were accepted, so these scanners only locate strings, members
 * and records.
 */

/** JSON punctuation. The values are both UTF-8 bytes and char codes of a string. */
export const quote = 0x22
export const backslash = 0x5c
export const comma = 0x2c
export const openBrace = 0x7b
export const closeBrace = 0x7d
export const openBracket = 0x5b
export const closeBracket = 0x5d
export const lineFeed = 0x0a
export const carriageReturn = 0x0d
export const space = 0x20

/** True when records of the body were deleted. */
export function hasDeleted(body: Uint8Array): boolean {
  return body[0] === lineFeed
}

/** Yields the records of a body, each a view into it. An empty body has none. A deleted record is an empty view. */
export function* records(body: Buffer): Generator<Buffer> {
  // The last line can be empty only where records were deleted.
  const [first, end] = hasDeleted(body) ? [1, body.length + 1] : [0, body.length]
  let start = first
  while (start < end) {
    const found = body.indexOf(lineFeed, start)
    const lineEnd = found === -1 ? body.length : found
    yield body.subarray(start, lineEnd)
    start = lineEnd + 1
  }
}

/** The records of a body as strings; '' is a deleted one. Faster than `records` when all of them are needed as text. */
export function recordTexts(body: Buffer): string[] {
  return body.length === 0 ? [] : body.toString('utf8', hasDeleted(body) ? 1 : 0).split('\n')
}

/** JSON has no line breaks inside strings, and elsewhere they are white space. */
export function jsonTextOnOneLine(json: string): string {
  return json.replace(/[\r\n]/g, ' ')
}

/** Index, in the whole message, of a record of the body. */
export function recordPlace(
  { firstIndex = 0, places }: { firstIndex?: number; places?: readonly number[] },
  at: number,
): number {
  return places?.[at] ?? firstIndex + at
}

/** Selects records from index `from` on: at most `limit` records and `maxBytes` bytes, but at least one record. */
export interface RecordPage {
  from: number
  limit: number
  maxBytes: number
}

/** The texts of the selected records, '' for a deleted one; the others are not decoded. */
export function recordTextsIn(body: Buffer, { from, limit, maxBytes }: RecordPage): string[] {
  const texts: string[] = []
  let place = 0
  let bytes = 0
  for (const record of records(body)) {
    if (place++ < from) continue
    bytes += record.length
    if (texts.length === limit || (texts.length > 0 && bytes > maxBytes)) break
    texts.push(record.toString('utf8'))
  }
  return texts
}

/** The bodies that are not empty. A body is empty when all records of its message were left out. */
export function filledBodies(messages: readonly { body: Buffer }[]): Buffer[] {
  return messages.map(({ body }) => body).filter(({ length }) => length > 0)
}

/** The records as NDJSON, separated by newlines, between `before` and `after`. Allocates once. */
export function toNdjson(bodies: readonly Uint8Array[], before = '', after = ''): Buffer<ArrayBuffer> {
  let bytes = before.length + after.length + Math.max(0, bodies.length - 1)
  for (const body of bodies) bytes += body.length
  // Not from Buffer's pool: the result owns its ArrayBuffer and can be transferred to another thread.
  const whole = Buffer.allocUnsafeSlow(bytes)
  let at = whole.write(before, 0, 'latin1')
  for (let index = 0; index < bodies.length; index++) {
    if (index > 0) whole[at++] = lineFeed
    whole.set(bodies[index]!, at)
    at += bodies[index]!.length
  }
  whole.write(after, at, 'latin1')
  return whole
}

/** Below this size, memory can be a part of Buffer's pool, in which the bytes after a body are not the body's. */
const minRunBytes = 64 * 1024

/**
 * The records as NDJSON that ends with a newline. Bodies that a reader has returned in one piece of memory, each
 * followed by a newline, are not copied. The result must not be changed or transferred.
 */
export function asNdjson(bodies: readonly Buffer[]): Buffer {
  const [first] = bodies
  if (first === undefined) return toNdjson(bodies, '', '\n')
  const { buffer, byteOffset } = first
  const run = new Uint8Array(buffer)
  let end = byteOffset
  for (const body of bodies) {
    if (body.buffer !== buffer || body.byteOffset !== end) return toNdjson(bodies, '', '\n')
    end += body.length + 1
    if (end > run.length || run[end - 1] !== lineFeed) return toNdjson(bodies, '', '\n')
  }
  if (run.length < minRunBytes) return toNdjson(bodies, '', '\n')
  return Buffer.from(buffer, byteOffset, end - byteOffset)
}

/** The records as one JSON array in memory of its own, between `before` and `after`, which have no newlines. */
export function toJsonArray(bodies: readonly Uint8Array[], before = '', after = ''): Buffer<ArrayBuffer> {
  const json = toNdjson(bodies, `${before}[`, `]${after}`)
  for (let at = json.indexOf(lineFeed); at !== -1; at = json.indexOf(lineFeed, at + 1)) json[at] = comma
  return json
}

/** One `"key":value` at the top level of a record. All three are views into the record. */
export interface Member {
  /** Everything between the surrounding commas or braces, including white space. */
  text: Buffer
  /** The key's string literal with its quotes: see stringValue. */
  key: Buffer
  /** The value's text without surrounding white space. */
  value: Buffer
}

/** Yields the top-level members of a record in order. Duplicate keys are yielded each time. */
export function* members(record: Buffer): Generator<Member> {
  const brace = skipWhiteSpace(record, 0, record.length)
  for (let start = brace + 1; start < record.length; ) {
    const keyStart = skipWhiteSpace(record, start, record.length)
    if (record[keyStart] !== quote) return
    const keyEnd = endOfString(record, keyStart, record.length) + 1
    const colon = skipWhiteSpace(record, keyEnd, record.length)
    const valueStart = skipWhiteSpace(record, colon + 1, record.length)
    const end = endOfMember(record, valueStart)
    const valueEnd = beforeWhiteSpace(record, valueStart, end)
    yield {
      text: record.subarray(start, end),
      key: record.subarray(keyStart, keyEnd),
      value: record.subarray(valueStart, valueEnd),
    }
    start = end + 1
  }
}

/** Index of the comma or closing brace after the value that starts at `at`. */
export function endOfMember(record: Uint8Array, at: number): number {
  let depth = 0
  for (let i = at; i < record.length; i++) {
    const byte = record[i]
    if (byte === quote) i = endOfString(record, i, record.length)
    else if (byte === openBrace || byte === openBracket) depth++
    else if (depth > 0 && (byte === closeBrace || byte === closeBracket)) depth--
    else if (depth === 0 && (byte === comma || byte === closeBrace)) return i
  }
  return record.length
}

/** Index of the closing quote of the string that starts at `at`, or `end`. */
export function endOfString(bytes: Uint8Array, at: number, end: number): number {
  for (let i = at + 1; i < end; i++) {
    const byte = bytes[i]
    if (byte === quote) return i
    if (byte === backslash) i++
  }
  return end
}

export function skipWhiteSpace(bytes: Uint8Array, start: number, end: number): number {
  let at = start
  while (at < end && isWhiteSpace(bytes[at]!)) at++
  return at
}

/** The end of `start`–`end` without trailing white space. */
export function beforeWhiteSpace(bytes: Uint8Array, start: number, end: number): number {
  let at = end
  while (at > start && isWhiteSpace(bytes[at - 1]!)) at--
  return at
}

function isWhiteSpace(byte: number): boolean {
  return byte === space || byte === lineFeed || byte === carriageReturn || byte === 0x09
}

/** The string that a JSON string literal (with quotes) denotes. */
export function stringValue(literal: string): string {
  return literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1)
}

/**
 * Extracts members in hot loops over strings: puts the raw text of every wanted key into `values` at the key's slot.
 * Slots of missing keys become undefined. The last of duplicate keys wins, as in JSON.parse. With 9 keys per record it
 * takes an eighth of the time of `members`, which decodes each key and value separately.
 */
export function pickMembers(
  record: string,
  slots: ReadonlyMap<string, number>,
  values: (string | undefined)[],
): void {
  values.fill(undefined)
  let at = skipTextSpace(record, skipTextSpace(record, 0) + 1)
  while (record.charCodeAt(at) === quote) {
    const keyEnd = endOfStringText(record, at)
    const slot = slots.get(stringValue(record.slice(at, keyEnd)))
    const start = skipTextSpace(record, skipTextSpace(record, keyEnd) + 1)
    const end = endOfValueText(record, start)
    if (slot !== undefined) values[slot] = record.slice(start, end)
    at = skipTextSpace(record, end)
    if (record.charCodeAt(at) === comma) at = skipTextSpace(record, at + 1)
  }
}

function skipTextSpace(text: string, from: number): number {
  let at = from
  // Space, tab, carriage return, newline: JSON knows no other white space, and all of it is at or below 0x20.
  while (text.charCodeAt(at) <= space) at++
  return at
}

function endOfValueText(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === quote) return endOfStringText(text, start)
  if (first === openBrace || first === openBracket) return endOfContainerText(text, start)
  let at = start
  for (;;) {
    const code = text.charCodeAt(at)
    // NaN past the end of a damaged text fails every comparison and ends the loop too.
    if (!(code > space) || code === comma || code === closeBrace || code === closeBracket) return at
    at++
  }
}

/** Index just after the closing quote of the string that starts at `start`. */
function endOfStringText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (text.charCodeAt(at - 1 - escapes) === backslash) escapes++
    if (escapes % 2 === 0) return at + 1
  }
  return text.length
}

function endOfContainerText(text: string, start: number): number {
  let depth = 0
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfStringText(text, at)
      continue
    }
    at++
    if (code === openBrace || code === openBracket) depth++
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at
  }
  return at
}

export function afterByteOrderMark(bytes: Buffer): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
}
