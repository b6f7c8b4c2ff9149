/**
 * The tokens of a body whose JSON the scanner accepted. Each function takes the index of the first byte of a value and
 * returns the index after it, or `undecided` when the value is not a simple one.
 */
import {
  backslash,
  closeBrace,
  closeBracket,
  comma,
  openBrace,
  openBracket,
  quote,
  space,
} from '../../log/record-text.ts'

export const undecided = -1
const colon = 0x3a
const minus = 0x2d
const dot = 0x2e

/** The properties of the last string and number. One body is walked at a time, without waiting in between. */
export const last = {
  hasEscape: false,
  isAscii: true,
  number: 0,
}

/** The index of the next byte that is not white space. */
export function afterSpace(bytes: Uint8Array, start: number): number {
  let at = start
  while (bytes[at]! <= space) at++
  return at
}

/** Sets `last.hasEscape` and `last.isAscii`. */
export function afterString(bytes: Uint8Array, start: number): number {
  const length = bytes.length
  let allBits = 0
  let hasEscape = false
  for (let at = start + 1; at < length; at++) {
    const byte = bytes[at]!
    if (byte === quote) {
      last.hasEscape = hasEscape
      last.isAscii = allBits < 0x80
      return at + 1
    }
    allBits |= byte
    if (byte === backslash) {
      hasEscape = true
      at++
    }
  }
  return undecided
}

export function afterValue(bytes: Uint8Array, start: number): number {
  const first = bytes[start]
  if (first === quote) return afterString(bytes, start)
  return first === openBrace || first === openBracket
    ? afterContainer(bytes, start)
    : afterScalar(bytes, start)
}

function afterContainer(bytes: Uint8Array, start: number): number {
  let depth = 0
  let at = start
  while (at < bytes.length) {
    const byte = bytes[at]!
    if (byte === quote) {
      at = afterKeyOrText(bytes, at)
      if (at === undecided) return undecided
      continue
    }
    depth += nesting(byte)
    at++
    if (depth === 0) return at
  }
  return undecided
}

function nesting(byte: number): number {
  if (byte === openBrace || byte === openBracket) return 1
  return byte === closeBrace || byte === closeBracket ? -1 : 0
}

/** Undecided if a key has an escape: Node.js 24 mistakes some of these keys. */
function afterKeyOrText(bytes: Uint8Array, start: number): number {
  const end = afterString(bytes, start)
  const isEscapedKey = end !== undecided && last.hasEscape && bytes[afterSpace(bytes, end)] === colon
  return isEscapedKey ? undecided : end
}

/** A number or a literal. */
export function afterScalar(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && !endsScalar(bytes[at]!)) at++
  return at
}

function endsScalar(byte: number): boolean {
  return byte <= space || byte === comma || byte === closeBrace || byte === closeBracket
}

/** The digits of which every number is exact, so that one division by a power of ten rounds as JSON.parse does. */
const exactDigits = 15
const powersOfTen = Array.from({ length: exactDigits + 1 }, (_, exponent) => Number(`1e${exponent}`))

/** Sets `last.number`. */
export function afterNumber(bytes: Buffer, start: number): number {
  const first = bytes[start] === minus ? start + 1 : start
  let at = afterDigits(bytes, first, 0)
  if (bytes[at] === dot) {
    const fractionAt = at + 1
    at = afterDigits(bytes, fractionAt, last.number)
    last.number /= powersOfTen[at - fractionAt] ?? Number.NaN
  }
  if (at - first > exactDigits || !endsScalar(bytes[at]!)) return afterLongNumber(bytes, start)
  if (first !== start) last.number = -last.number
  return at
}

/** Many digits, or an exponent. */
function afterLongNumber(bytes: Buffer, start: number): number {
  const end = afterScalar(bytes, start)
  last.number = Number(bytes.toString('latin1', start, end))
  return end
}

/** Appends the digits to those of `before`. */
function afterDigits(bytes: Uint8Array, start: number, before: number): number {
  let value = before
  let at = start
  while (isDigit(bytes[at]!)) value = value * 10 + bytes[at++]! - 0x30
  last.number = value
  return at
}

export function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}
