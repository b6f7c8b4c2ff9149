/**
 * The top-level values of one record, each as the client's own JSON text. Nothing is parsed to a JavaScript value and
 * printed again: 12345678901234567890 and 1.10 would not survive that.
 *
 * The text was validated when it was accepted, so this scanner only has to find where keys and values begin and end.
 */

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/**
 * Puts the raw text of every wanted key into `values` at the key's slot; slots of keys that the record lacks become
 * undefined. A key that occurs twice counts with its last value, as in `JSON.parse`.
 */
export function scanRecord(
  record: string,
  slots: ReadonlyMap<string, number>,
  values: (string | undefined)[],
): void {
  values.fill(undefined)
  let at = skipSpace(record, skipSpace(record, 0) + 1)
  while (record.charCodeAt(at) === quote) {
    const keyEnd = endOfString(record, at)
    const slot = slots.get(stringValue(record.slice(at, keyEnd)))
    const start = skipSpace(record, skipSpace(record, keyEnd) + 1)
    const end = endOfValue(record, start)
    if (slot !== undefined) values[slot] = record.slice(start, end)
    at = skipSpace(record, end)
    if (record.charCodeAt(at) === comma) at = skipSpace(record, at + 1)
  }
}

/** What a JSON string literal stands for. */
export function stringValue(literal: string): string {
  return literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1)
}

/** The records of a message: one a line. */
export function recordsOf(body: Buffer): string[] {
  return body.toString('utf8').split('\n')
}

function skipSpace(text: string, from: number): number {
  let at = from
  // Space, tab, carriage return, newline: JSON knows no other white space, and all of it is at or below 0x20.
  while (text.charCodeAt(at) <= 0x20) at++
  return at
}

function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === quote) return endOfString(text, start)
  if (first === openBrace || first === openBracket) return endOfContainer(text, start)
  let at = start
  for (;;) {
    const code = text.charCodeAt(at)
    // NaN, past the end of a damaged text, fails every comparison and ends the loop too.
    if (!(code > 0x20) || code === comma || code === closeBrace || code === closeBracket) return at
    at++
  }
}

/** Just after the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (text.charCodeAt(at - 1 - escapes) === backslash) escapes++
    if (escapes % 2 === 0) return at + 1
  }
  return text.length
}

function endOfContainer(text: string, start: number): number {
  let depth = 0
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfString(text, at)
      continue
    }
    at++
    if (code === openBrace || code === openBracket) depth++
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at
  }
  return at
}
