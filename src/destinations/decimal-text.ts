/**
 * Decimal numbers as text, and whether a float keeps their digits. The texts come from untrusted records, so every
 * function scans its text a fixed number of times. Regular expressions with `0+$` or two adjacent `\\s*` took 37
 * minutes for 1 MB.
 */
import { space } from '../log/record-text.ts'

const zero = 0x30
const nine = 0x39
const plus = 0x2b
const minus = 0x2d
const point = 0x2e

/** `digits × 10^-scale`, without leading or trailing zeros. Zero has no digits and scale 0. */
export interface Decimal {
  isNegative: boolean
  digits: string
  scale: number
}

/**
 * Accepts surrounding white space, a plus sign, and a point without digits on one side. Returns null if the text is not
 * a number.
 */
export function decimalOf(text: string): Decimal | null {
  const { start, end } = trimmed(text)
  const wholeStart = isSign(text.charCodeAt(start)) ? start + 1 : start
  const wholeEnd = endOfDigits(text, wholeStart, end)
  const hasPoint = wholeEnd < end && text.charCodeAt(wholeEnd) === point
  const fractionEnd = hasPoint ? endOfDigits(text, wholeEnd + 1, end) : wholeEnd
  const exponent = exponentAt(text, fractionEnd, end)
  const fraction = hasPoint ? text.slice(wholeEnd + 1, fractionEnd) : ''
  const all = text.slice(wholeStart, wholeEnd) + fraction
  if (exponent === null || all === '') return null
  let first = 0
  while (first < all.length && all.charCodeAt(first) === zero) first += 1
  let last = all.length
  while (last > first && all.charCodeAt(last - 1) === zero) last -= 1
  const digits = all.slice(first, last)
  const scale = digits === '' ? 0 : fraction.length - (all.length - last) - exponent
  return { isNegative: text.charCodeAt(start) === minus, digits, scale }
}

/**
 * Returns true if a 32-bit or 64-bit float holds the number without changing its digits: 1.10 and 2^60 fit a double,
 * 12345678901234567890 does not. Returns false for text that is not a number.
 */
export function fitsFloat(text: string, bits: 32 | 64): boolean {
  const wanted = decimalOf(text)
  if (wanted === null) return false
  const { digits, scale } = wanted
  if (digits === '') return true
  const isShort = digits.length <= safeDigits[bits] && Math.abs(scale) <= 20
  if (isShort) return true
  if (digits.length > maxPrecision) return false
  const value = bits === 32 ? Math.fround(Number(text)) : Number(text)
  if (!Number.isFinite(value) || value === 0) return false
  const kept = decimalOf(value.toPrecision(digits.length))
  return kept?.digits === digits && kept.scale === scale
}

/** Decimal digits that a float of 32 or 64 bits always preserves: FLT_DIG and DBL_DIG in C. */
const safeDigits = { 32: 6, 64: 15 } as const
/** The largest argument that `toPrecision` accepts. */
const maxPrecision = 100

/** The exponent after an `e` at `at`; 0 if the text ends there, null if it is not a number. */
function exponentAt(text: string, at: number, end: number): number | null {
  if (at === end) return 0
  const code = text.charCodeAt(at)
  if (code !== 0x45 && code !== 0x65) return null
  const digits = isSign(text.charCodeAt(at + 1)) ? at + 2 : at + 1
  if (digits >= end || endOfDigits(text, digits, end) !== end) return null
  return Number(text.slice(at + 1, end))
}

/** The range of the text without surrounding white space. */
export function trimmed(text: string): { start: number; end: number } {
  let start = 0
  let end = text.length
  while (start < end && isSpace(text.charCodeAt(start))) start += 1
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1
  return { start, end }
}

/** The index just after the run of digits that begins at `start`. */
export function endOfDigits(text: string, start: number, end: number): number {
  let at = start
  while (at < end && isDigit(text.charCodeAt(at))) at += 1
  return at
}

/** The beginning of a text for an error message; a value that does not fit can be megabytes long. */
export function excerpt(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

export function isDigit(code: number): boolean {
  return code >= zero && code <= nine
}

function isSign(code: number): boolean {
  return code === plus || code === minus
}

/**
 * True for the characters that a MySQL-family server skips around a number: space, tab, line feed, vertical tab, form
 * feed, carriage return.
 */
function isSpace(code: number): boolean {
  return code === space || (code >= 0x09 && code <= 0x0d)
}
