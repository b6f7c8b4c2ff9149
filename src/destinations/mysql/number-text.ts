/**
 * Numbers as text, scanned by hand. Whoever may send a record chooses these texts, so each function passes over its
 * text at most once, whatever it holds: a regular expression with `0+$` or two adjacent `\\s*` took 37 minutes for 1 MB.
 */
import { space } from '../../buffer/record-text.ts'

const zero = 0x30
const nine = 0x39
const plus = 0x2b
const minus = 0x2d
const point = 0x2e

/** True for a decimal number with something after the point; false for whole numbers and for what is no number. */
export function isFraction(text: string): boolean {
  const { start, end } = trimmed(text)
  const wholeStart = isSign(text.charCodeAt(start)) ? start + 1 : start
  const wholeEnd = endOfDigits(text, wholeStart, end)
  let at = wholeEnd
  let fractionEnd = wholeEnd
  if (at < end && text.charCodeAt(at) === point) {
    at = endOfDigits(text, at + 1, end)
    fractionEnd = at
  }
  const exponent = exponentAt(text, at, end)
  if (exponent === null) return false
  // Digits that count, from the last one that is not a zero backwards.
  const lastFraction = beforeZeros(text, wholeEnd + 1, fractionEnd)
  const significant = Math.max(0, lastFraction - wholeEnd - 1)
  if (significant > 0) return significant > exponent
  const lastWhole = beforeZeros(text, wholeStart, wholeEnd)
  const isZero = lastWhole === wholeStart
  return !isZero && -(wholeEnd - lastWhole) > exponent
}

/** The value after an `e` that begins at `at`, 0 where the text ends there; null: it is no number. */
function exponentAt(text: string, at: number, end: number): number | null {
  if (at === end) return 0
  const code = text.charCodeAt(at)
  if (code !== 0x45 && code !== 0x65) return null
  const digits = isSign(text.charCodeAt(at + 1)) ? at + 2 : at + 1
  if (digits >= end || endOfDigits(text, digits, end) !== end) return null
  return Number(text.slice(at + 1, end))
}

/** Where the text begins and ends without the white space around it. */
export function trimmed(text: string): { start: number; end: number } {
  let start = 0
  let end = text.length
  while (start < end && isSpace(text.charCodeAt(start))) start += 1
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1
  return { start, end }
}

/** Just after the run of digits that begins at `start`. */
export function endOfDigits(text: string, start: number, end: number): number {
  let at = start
  while (at < end && isDigit(text.charCodeAt(at))) at += 1
  return at
}

/** The beginning of a text, for an error: what does not fit may be megabytes long. */
export function excerpt(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

/** Just after the last digit between `start` and `end` that is not a zero; `start` where there is none. */
function beforeZeros(text: string, start: number, end: number): number {
  let at = end
  while (at > start && text.charCodeAt(at - 1) === zero) at -= 1
  return Math.max(at, start)
}

export function isDigit(code: number): boolean {
  return code >= zero && code <= nine
}

function isSign(code: number): boolean {
  return code === plus || code === minus
}

/** What the server skips around a number: space, tab, line feed, vertical tab, form feed, carriage return. */
function isSpace(code: number): boolean {
  return code === space || (code >= 0x09 && code <= 0x0d)
}
