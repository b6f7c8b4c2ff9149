/**
 * Converts a record's JSON text to the value bound for one column: text or null. Numbers are bound as text too: the server
 * reads the digits of a string exactly, while a bound JavaScript number is a double.
 *
 * Records come from untrusted clients. A regular expression that backtracks on 300 KB of spaces would stop delivery for every
 * lane, so each scan here takes linear time.
 *
 * A value that the server would change without an error is rejected or corrected here. `mysql-values.test.ts` sends
 * values of every kind to columns of every kind and reads them back.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import { openBrace, openBracket, quote, stringValue } from '../../log/record-text.ts'
import { decimalOf, excerpt, fitsFloat } from '../decimal-text.ts'
import { calendarText, sendIso, timeText } from './calendar-text.ts'
import { ColumnValueError } from './column-value-error.ts'

/** The kinds of columns that the driver treats differently; all other column types accept text unchanged. */
export type ColumnKind =
  | 'integer'
  | 'bit'
  | 'year'
  | 'number'
  | 'float'
  | 'double'
  | 'datetime'
  | 'date'
  | 'time'
  /** MariaDB's JSON, which is text. */
  | 'json'
  /** MySQL's JSON, which keeps numbers as 64-bit integers and doubles. */
  | 'document'
  | 'enum'
  | 'set'
  | 'char'
  | 'binary'
  | 'text'

export interface MysqlColumn {
  name: string
  kind: ColumnKind
  /** As the catalog spells it: `decimal(30,10)`, `enum('a','b')`. */
  type: string
  /** The members of an ENUM or SET. */
  members: ReadonlySet<string>
  /** Number of fractional digits of a second that the column keeps. */
  timePrecision: number
  isNotNull: boolean
  /** True if the column has a default other than NULL: a value, an expression, auto_increment. */
  hasDefault: boolean
  /** The server computes the column: it cannot be written. */
  isGenerated: boolean
}

/** Throws a ColumnValueError for a value that the column would not return as it was sent. */
export function parameterOf(json: string | undefined, column: MysqlColumn): string | null {
  if (json === undefined || json === 'null') return null
  if (column.kind === 'json') return json
  if (column.kind === 'document') return documentText(json)
  const first = json.charCodeAt(0)
  if (first === quote) return textFor(wellFormed(json), column)
  const isStructure = first === openBrace || first === openBracket
  if (json === 'true' || json === 'false') return booleanFor(json, column)
  return isStructure ? textFor(json, column) : numberFor(json, column)
}

/** A lone surrogate has no UTF-8 encoding: a question mark would be stored. */
function wellFormed(json: string): string {
  const text = stringValue(json)
  if (json.includes('\\') && /\p{Surrogate}/u.test(text))
    throw new ColumnValueError('it has half a surrogate pair, which is not valid text')
  return text
}

function textFor(text: string, column: MysqlColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
      return calendarText(text, column)
    case 'time':
      return timeText(text, column)
    case 'char':
      if (text.endsWith(' ')) throw new ColumnValueError('a CHAR column drops the spaces at its end')
      return text
    case 'binary':
      return binaryText(text, column)
    case 'enum':
    case 'set':
      return memberText(text, column)
    case 'text':
    case 'json':
    case 'document':
      return text
    default:
      return numericText(text, `"${excerpt(text)}"`, column)
  }
}

function numberFor(json: string, column: MysqlColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
    case 'time':
      throw new ColumnValueError(`the number ${excerpt(json)} is not a time; send text ${sendIso(column)}`)
    default:
      return textFor(json, column)
  }
}

/** Booleans become 1 and 0 in a numeric column. */
function booleanFor(json: 'true' | 'false', column: MysqlColumn): string {
  switch (column.kind) {
    case 'integer':
    case 'bit':
    case 'number':
    case 'float':
    case 'double':
      return json === 'true' ? '1' : '0'
    default:
      return textFor(json, column)
  }
}

/** Text that is not a number is left to the server, which rejects it. */
function numericText(text: string, shown: string, column: MysqlColumn): string {
  const { kind } = column
  if (text.length > resourceLimits.numericTextCharacters)
    throw new ColumnValueError(
      `${excerpt(text)} has ${text.length} characters, and a numeric column accepts at most ${resourceLimits.numericTextCharacters}`,
    )
  if (kind === 'bit') return bitText(text, shown)
  const number = decimalOf(text)
  if (number === null) return text
  const { scale, digits } = number
  switch (kind) {
    case 'integer':
      if (scale > 0) throw new ColumnValueError(`${shown} is not a whole number`)
      return text
    case 'year': {
      // The server would store "26" as 2026 and "0" as 2000.
      const isYear = scale <= 0 && digits.length - scale === 4
      if (!isYear && text !== '0000') throw new ColumnValueError(`${shown} is not a year of four digits`)
      return text
    }
    case 'float':
    case 'double':
      if (roundsFloat(text, scale, column)) throw new ColumnValueError(`the column would round ${shown}`)
      return text
    default:
      return text
  }
}

/** FLOAT(7,2) keeps two digits after the decimal point. */
function roundsFloat(text: string, scale: number, { kind, type }: MysqlColumn): boolean {
  const decimals = /^\w+\(\d+,(\d+)\)/.exec(type)?.[1]
  return !fitsFloat(text, kind === 'float' ? 32 : 64) || scale > Number(decimals ?? scale)
}

/** Returns plain digits: CAST(? AS UNSIGNED) in the statement accepts no exponent, and converts -1 to 2^64 - 1. */
function bitText(text: string, shown: string): string {
  const number = decimalOf(text)
  if (number === null || number.scale > 0) throw new ColumnValueError(`${shown} is not a whole number`)
  const { digits, scale, isNegative } = number
  const isInRange = digits === '' || (!isNegative && digits.length - scale <= 20)
  const value = isInRange ? BigInt(digits + '0'.repeat(-scale)) : 2n ** 64n
  if (value >= 2n ** 64n) throw new ColumnValueError(`${shown} is negative or has more than 64 bits`)
  return String(value)
}

/** Rejects texts that are not a member: digits would be interpreted as a member's position, and "A" as 'a'. */
function memberText(text: string, { kind, members, type }: MysqlColumn): string {
  const parts = kind === 'set' && text !== '' ? text.split(',') : [text]
  const isMember = (part: string) => members.has(part)
  if (!(kind === 'set' && text === '') && !parts.every(isMember))
    throw new ColumnValueError(`${excerpt(text)} is not one of ${excerpt(type)}`)
  return text
}

/** BINARY(n) pads with zero bytes. */
function binaryText(text: string, { type }: MysqlColumn): string {
  const length = Number(/\((\d+)\)/.exec(type)?.[1] ?? 1)
  const bytes = Buffer.byteLength(text)
  if (bytes < length)
    throw new ColumnValueError(`the column would fill its ${bytes} bytes up to ${length} with zeros`)
  return text
}

/** The text of a value for MySQL's JSON type, which would round numbers that are longer than a double. */
function documentText(json: string): string {
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === quote) at = endOfString(json, at)
    else if (isNumberCode(code)) {
      const start = at
      while (at + 1 < json.length && isNumberCode(json.charCodeAt(at + 1), true)) at += 1
      checkDocumentNumber(json.slice(start, at + 1))
    }
  }
  return json
}

function checkDocumentNumber(number: string): void {
  const isShort = number.length <= resourceLimits.numericTextCharacters
  if (isShort && (isInt64(number) || fitsFloat(number, 64))) return
  throw new ColumnValueError(`JSON would round the number ${excerpt(number)}`)
}

/** From −2^63 to 2^64 − 1. */
function isInt64(number: string): boolean {
  if (number.length > 20 || !/^-?\d+$/.test(number)) return false
  const value = BigInt(number)
  return value >= -(2n ** 63n) && value < 2n ** 64n
}

/** Index of the closing quote of the string that begins at `start`. */
function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json.charCodeAt(at) !== quote) at += json[at] === '\\' ? 2 : 1
  return at
}

/** True for a digit or minus; with `isInside` also for plus, point and the exponent's letter. */
function isNumberCode(code: number, isInside = false): boolean {
  if ((code >= 0x30 && code <= 0x39) || code === 0x2d) return true
  return isInside && (code === 0x2b || code === 0x2e || code === 0x45 || code === 0x65)
}
