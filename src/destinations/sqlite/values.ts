/**
 * Converts a record's JSON text to the value that is bound for one column. SQLite converts a bound value to the type of the
 * column, and may then round it without an error. So every value is bound in the type in which the column stores it, and a
 * value that the column would change is rejected here.
 *
 *   column            number                                        text                          true, false
 *   ----------------- --------------------------------------------- ----------------------------- -----------
 *   INTEGER           a whole number of 64 bits                     the same, in digits           1, 0
 *   REAL              if a double keeps its digits                  the same, in digits           1, 0
 *   NUMERIC           as INTEGER or REAL                            digits as a number, else text 1, 0
 *   TEXT              its JSON text: every digit                    as it is                      true, false
 *   ANY, without type as INTEGER or REAL; other numbers as text     as it is                      1, 0
 *   BLOB              the bytes of its JSON text                    its bytes                     bytes
 *
 * Objects and arrays are stored as JSON text, unless the column stores only numbers.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import { openBrace, openBracket, quote, stringValue } from '../../log/record-text.ts'
import { decimalOf, excerpt, fitsFloat } from '../decimal-text.ts'

export type ColumnKind = 'integer' | 'real' | 'numeric' | 'text' | 'blob' | 'any'

export interface SqliteColumn {
  name: string
  /** As the schema spells it; empty if it has no type. */
  type: string
  kind: ColumnKind
  isNotNull: boolean
  /** SQLite provides a value: a default, or the next id of an INTEGER PRIMARY KEY. */
  hasDefault: boolean
  isGenerated: boolean
}

export type BoundValue = string | number | bigint | Buffer | null

/** A value that its column cannot hold unchanged. The message goes after "cannot store the value unchanged:". */
export class ColumnValueError extends Error {}

/** The rules of https://www.sqlite.org/datatype3.html#determination_of_column_affinity, in their order. */
export function kindOf(declaredType: string, isStrict: boolean): ColumnKind {
  const type = declaredType.toUpperCase()
  if (isStrict && type === 'ANY') return 'any'
  if (type.includes('INT')) return 'integer'
  if (/CHAR|CLOB|TEXT/.test(type)) return 'text'
  if (type.includes('BLOB')) return 'blob'
  if (type === '') return 'any'
  return /REAL|FLOA|DOUB/.test(type) ? 'real' : 'numeric'
}

/** Throws a ColumnValueError for a value that the column would not return as it was sent. */
export function boundValue(json: string | undefined, { kind }: SqliteColumn): BoundValue {
  if (json === undefined || json === 'null') return null
  const first = json.charCodeAt(0)
  if (first === quote) return textFor(wellFormed(json), kind)
  if (first === openBrace || first === openBracket) return structureFor(json, kind)
  if (json === 'true' || json === 'false') return booleanFor(json, kind)
  return numberFor(json, json, kind)
}

/** A lone surrogate has no UTF-8 encoding: another character would be stored. */
function wellFormed(json: string): string {
  const text = stringValue(json)
  if (json.includes('\\') && /\p{Surrogate}/u.test(text))
    throw new ColumnValueError('it has half a surrogate pair, which is not valid text')
  return text
}

function textFor(text: string, kind: ColumnKind): BoundValue {
  switch (kind) {
    case 'integer':
    case 'real':
      return numberFor(text, `"${excerpt(text)}"`, kind)
    case 'numeric':
      return isNumber(text) ? numberFor(text, `"${excerpt(text)}"`, kind) : text
    case 'blob':
      return Buffer.from(text)
    default:
      return text
  }
}

function structureFor(json: string, kind: ColumnKind): BoundValue {
  if (kind === 'integer' || kind === 'real') throw new ColumnValueError(`${excerpt(json)} is not a number`)
  return kind === 'blob' ? Buffer.from(json) : json
}

function booleanFor(json: 'true' | 'false', kind: ColumnKind): BoundValue {
  if (kind === 'text') return json
  if (kind === 'blob') return Buffer.from(json)
  return json === 'true' ? 1n : 0n
}

/** `shown`: the value for error messages. */
function numberFor(text: string, shown: string, kind: ColumnKind): BoundValue {
  if (kind === 'text') return text
  if (kind === 'blob') return Buffer.from(text)
  const isLong = text.length > resourceLimits.numericTextCharacters
  if (isLong && kind === 'any') return text
  if (isLong)
    throw new ColumnValueError(
      `${excerpt(text)} has ${text.length} characters, and a column of numbers accepts at most ${resourceLimits.numericTextCharacters}`,
    )
  if (!isNumber(text)) throw new ColumnValueError(`${shown} is not a number`)
  if (kind === 'integer') return requiredInteger(text, shown)
  const integer = kind === 'real' ? null : integerOf(text)
  if (integer !== null) return integer
  if (fitsFloat(text, 64)) return Number(text)
  if (kind === 'any') return text
  throw new ColumnValueError(`the column would round ${shown}: use a column of the type TEXT`)
}

function isNumber(text: string): boolean {
  return text.length <= resourceLimits.numericTextCharacters && decimalOf(text) !== null
}

function requiredInteger(text: string, shown: string): bigint {
  const integer = integerOf(text)
  if (integer !== null) return integer
  const isWhole = decimalOf(text)!.scale <= 0
  throw new ColumnValueError(
    isWhole
      ? `${shown} does not fit 64 bits: use a column of the type TEXT`
      : `${shown} is not a whole number`,
  )
}

/** From −2^63 to 2^63 − 1; null for any other number. */
function integerOf(text: string): bigint | null {
  const { digits, scale, isNegative } = decimalOf(text)!
  if (scale > 0 || digits.length - scale > 19) return null
  const size = BigInt(`${digits}${'0'.repeat(-scale)}` || '0')
  const value = isNegative ? -size : size
  return value >= -(2n ** 63n) && value < 2n ** 63n ? value : null
}
