/**
 * Classifies one JSON value by its text: 1.10 and 12345678901234567890 are read as digits, never as doubles. Records come from
 * untrusted clients, so every function scans its text once.
 */
import { resourceLimits } from '../../../contract/resource-limits.ts'
import { backslash, openBrace, openBracket, quote } from '../../../log/record-text.ts'

export const valueKinds = [
  'null',
  'boolean',
  'integer',
  'decimal',
  'string',
  'uuid',
  'date',
  'time',
  'object',
  'array',
] as const
export type ValueKind = (typeof valueKinds)[number]

export interface ValueFacts {
  kind: ValueKind
  /** For a number: digits before and after the decimal point when written without an exponent. */
  wholeDigits: number
  fractionDigits: number
  /** For an integer only. */
  isInt64: boolean
  /** For a time: `Z` or `+00:00`. */
  isUtc: boolean
  /** The value contains a NUL character, which PostgreSQL's text and jsonb cannot store. */
  hasNul: boolean
  /** An escape is a lone surrogate, which UTF-8 cannot encode. */
  hasLoneSurrogate: boolean
  /** A number in the value has more digits than a double keeps, or an exponent. */
  hasLongNumber: boolean
  /** A number in the value is too long or too large for a typical numeric column. */
  hasHugeNumber: boolean
}

/** The default facts of a simple value. */
export const plainFacts: Omit<ValueFacts, 'kind'> = {
  wholeDigits: 0,
  fractionDigits: 0,
  isInt64: true,
  isUtc: true,
  hasNul: false,
  hasLoneSurrogate: false,
  hasLongNumber: false,
  hasHugeNumber: false,
}

/** `value`: one valid JSON value without surrounding white space. */
export function factsOf(value: Buffer): ValueFacts {
  switch (value[0]) {
    case quote:
      return stringFacts(value)
    case openBrace:
      return { ...plainFacts, ...scan(value), kind: 'object' }
    case openBracket:
      return { ...plainFacts, ...scan(value), kind: 'array' }
    case 0x74: // t
    case 0x66: // f
      return { ...plainFacts, kind: 'boolean' }
    case 0x6e: // n
      return { ...plainFacts, kind: 'null' }
    default:
      return numberFacts(value)
  }
}

function stringFacts(value: Buffer): ValueFacts {
  const found = { ...plainFacts, ...scan(value) }
  const shaped = value.length <= longestShaped ? shapeOf(value.toString('utf8').slice(1, -1)) : null
  return { ...found, ...(shaped ?? { kind: 'string' }) }
}

/** Including the quotes: no time, date or UUID is longer. */
const longestShaped = 42
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const datePattern = /^(\d{4})-(\d{2})-(\d{2})$/
// At most six fractional digits: what timestamptz and datetime(6) keep.
const timePattern = /^(\d{4}-\d{2}-\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$/

/** Only forms that the typed column returns unchanged: a UUID in capitals or a time with nanoseconds is text. */
function shapeOf(text: string): { kind: ValueKind; isUtc?: boolean } | null {
  if (uuidPattern.test(text)) return { kind: 'uuid' }
  if (datePattern.test(text)) return isDay(text) ? { kind: 'date' } : null
  const time = timePattern.exec(text)
  if (time === null || !isDay(time[1]!)) return null
  const [, , hours, minutes, seconds = '00', zone = 'Z'] = time
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 59) return null
  if (zone !== 'Z' && (Number(zone.slice(1, 3)) > 14 || Number(zone.slice(4)) > 59)) return null
  return { kind: 'time', isUtc: zone === 'Z' || zone === '+00:00' }
}

/** True for an existing day in the years that PostgreSQL and MySQL both support, with any offset. */
function isDay(text: string): boolean {
  const [, year = '', month = '', day = ''] = datePattern.exec(text) ?? []
  if (Number(year) < 1001 || Number(year) > 9998) return false
  const time = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)))
  return time.getUTCMonth() === Number(month) - 1 && time.getUTCDate() === Number(day)
}

const numberPattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

function numberFacts(value: Buffer): ValueFacts {
  const facts = { ...plainFacts, ...scan(value) }
  const huge: ValueFacts = { ...facts, kind: 'decimal', isInt64: false, hasHugeNumber: true }
  if (value.length > resourceLimits.numericTextCharacters) return huge
  const found = numberPattern.exec(value.toString('latin1'))
  if (found === null) return huge
  const [text, , whole = '', fraction = '', exponentText] = found
  if (found[3] === undefined && exponentText === undefined)
    return { ...facts, kind: 'integer', wholeDigits: whole.length, isInt64: isInt64(text) }
  const exponent = Number(exponentText ?? 0)
  const isZero = !/[1-9]/.test(whole + fraction)
  const wholeDigits = isZero ? 1 : Math.max(0, whole.length + exponent)
  const fractionDigits = isZero ? 0 : Math.max(0, withoutEndZeros(fraction) - exponent)
  if (Math.max(wholeDigits, fractionDigits) > resourceLimits.numericTextCharacters) return huge
  // A number that is large only because of its exponent fits a numeric column.
  return { ...facts, kind: 'decimal', wholeDigits, fractionDigits, isInt64: false, hasHugeNumber: false }
}

function withoutEndZeros(digits: string): number {
  let length = digits.length
  while (length > 0 && digits[length - 1] === '0') length -= 1
  return length
}

function isInt64(text: string): boolean {
  if (text.length > 20) return false
  const value = BigInt(text)
  return value >= -(2n ** 63n) && value < 2n ** 63n
}

type Scanned = Pick<ValueFacts, 'hasNul' | 'hasLoneSurrogate' | 'hasLongNumber' | 'hasHugeNumber'>

const maxDoubleDigits = 15
const maxExponentDigits = 3

/** Scans the whole text of a value for escapes inside strings and for numbers outside. */
function scan(value: Buffer): Scanned {
  const found: Scanned = {
    hasNul: false,
    hasLoneSurrogate: false,
    hasLongNumber: false,
    hasHugeNumber: false,
  }
  let at = 0
  while (at < value.length) {
    const byte = value[at]!
    if (byte === quote) at = scanString(value, at + 1, found)
    else if (isDigit(byte)) at = scanNumber(value, at, found)
    else at += 1
  }
  return found
}

/** Starts just after the opening quote. Returns the index just after the closing one. */
function scanString(value: Buffer, start: number, found: Scanned): number {
  let at = start
  while (at < value.length && value[at] !== quote) {
    if (value[at] !== backslash) {
      at += 1
      continue
    }
    const unit = escapedUnit(value, at)
    if (unit === 0) found.hasNul = true
    const isPair = isHighSurrogate(unit) && isLowSurrogate(escapedUnit(value, at + 6))
    if (!isPair && (isHighSurrogate(unit) || isLowSurrogate(unit))) found.hasLoneSurrogate = true
    if (isPair) at += 6
    at += unit === -1 ? 2 : 6
  }
  return at + 1
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}

/** The code unit of a `\uXXXX` that begins at `at`; -1: there is none. */
function escapedUnit(value: Buffer, at: number): number {
  if (value[at] !== backslash || value[at + 1] !== 0x75) return -1
  return Number.parseInt(value.toString('latin1', at + 2, at + 6), 16)
}

/** Scans a number, its point and its exponent, from its first digit on. */
function scanNumber(value: Buffer, start: number, found: Scanned): number {
  let at = start
  while (at < value.length && (isDigit(value[at]!) || value[at] === 0x2e)) at += 1
  const digits = at - start
  if (digits > maxDoubleDigits) found.hasLongNumber = true
  if (digits > resourceLimits.numericTextCharacters) found.hasHugeNumber = true
  if (value[at] !== 0x65 && value[at] !== 0x45) return at
  found.hasLongNumber = true
  const sign = value[at + 1] === 0x2b || value[at + 1] === 0x2d ? 1 : 0
  const exponentStart = at + 1 + sign
  at = exponentStart
  while (at < value.length && isDigit(value[at]!)) at += 1
  if (at - exponentStart > maxExponentDigits) found.hasHugeNumber = true
  return at
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}
