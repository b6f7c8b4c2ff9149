/**
 * From a record's JSON text to what is bound for one column: text, or null. Text for everything, because the server
 * reads digits out of a string exactly, while a bound JavaScript number is a double.
 *
 * No regular expressions here: records come from strangers, and a pattern that backtracks on 300 KB of spaces would stop
 * delivery for everybody. Every scan passes over its text once.
 *
 * What the server would change without an error is rejected or corrected here: it rounds "1.5" for an INT without a
 * warning, reads a number as a calendar date (1012251530 is 2010-12-25 15:30) or as the place of an ENUM value, and
 * rounds or cuts fractions of a second depending on the server.
 */
import { openBrace, openBracket, quote, stringValue } from '../../buffer/record-text.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { calendarText } from './calendar-text.ts'
import { ColumnValueError } from './column-value-error.ts'
import { endOfDigits, excerpt, isFraction, trimmed } from './number-text.ts'

/** What the driver does differently for; every other column type takes text as it is. */
export type ColumnKind =
  | 'integer'
  | 'bit'
  | 'number'
  | 'datetime'
  | 'date'
  | 'time'
  | 'json'
  | 'enum'
  | 'text'

export interface MysqlColumn {
  name: string
  kind: ColumnKind
  /** As the catalog spells it: `decimal(30,10)`, `enum('a','b')`. */
  type: string
  /** Digits of a fraction of a second that the column keeps. */
  timePrecision: number
  isNullable: boolean
  /** Of its own, NULL aside: a value, an expression, auto_increment. */
  hasDefault: boolean
  /** The server computes it: cannot be written. */
  isGenerated: boolean
}

export function parameterOf(json: string | undefined, column: MysqlColumn): string | null {
  if (json === undefined || json === 'null') return null
  if (column.kind === 'json') return json
  const first = json.charCodeAt(0)
  if (first === quote) return textFor(stringValue(json), column)
  if (json === 'true' || json === 'false')
    return column.kind === 'text' || column.kind === 'enum' ? json : json === 'true' ? '1' : '0'
  if (first === openBrace || first === openBracket) return json
  return numberFor(json, column)
}

function textFor(text: string, column: MysqlColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
      return calendarText(text, column)
    case 'integer':
    case 'bit':
      return wholeNumber(text, `"${excerpt(text)}"`)
    case 'number':
      return ofNumericLength(text)
    case 'enum':
      return enumText(text, column)
    default:
      return text
  }
}

function numberFor(json: string, column: MysqlColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
    case 'time':
      throw new ColumnValueError(
        `the number ${excerpt(json)} is not a time; send ISO 8601 text such as "2026-01-02T03:04:05Z"`,
      )
    case 'integer':
    case 'bit':
      return wholeNumber(json, excerpt(json))
    case 'number':
      return ofNumericLength(json)
    case 'enum':
      return enumText(json, column)
    default:
      return json
  }
}

function wholeNumber(text: string, shown: string): string {
  if (isFraction(ofNumericLength(text))) throw new ColumnValueError(`${shown} is not a whole number`)
  return text
}

/** No numeric column holds as many digits, and the server takes long over what has more. */
function ofNumericLength(text: string): string {
  if (text.length <= resourceLimits.numericTextCharacters) return text
  throw new ColumnValueError(
    `${excerpt(text)} has ${text.length} characters, of which a numeric column takes at most ${resourceLimits.numericTextCharacters}`,
  )
}

/** Digits that are none of the values would be taken for the place of a value in the list. */
function enumText(text: string, column: MysqlColumn): string {
  const { start, end } = trimmed(text)
  if (end > start && endOfDigits(text, start, end) === end && !column.type.includes(`'${text}'`))
    throw new ColumnValueError(`${excerpt(text)} is none of ${excerpt(column.type)}`)
  return text
}
