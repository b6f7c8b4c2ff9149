/**
 * From a record's JSON text to what is bound for one column: text, or null. Text for everything, because the server
 * reads digits out of a string exactly, while a bound JavaScript number is a double.
 *
 * What the server would change without an error is refused or put right here: it rounds "1.5" for an INT without a
 * warning, reads a number as a calendar date (1012251530 is 2010-12-25 15:30) or as the place of an ENUM value, and
 * rounds or cuts fractions of a second depending on the server.
 */
import { stringValue } from './record-values.ts'

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

export interface TableColumn {
  name: string
  kind: ColumnKind
  /** As the catalog spells it: `decimal(30,10)`, `enum('a','b')`. */
  type: string
  /** Digits of a fraction of a second that the column keeps. */
  timePrecision: number
  isNullable: boolean
  hasDefault: boolean
  /** The server computes it: cannot be written. */
  isGenerated: boolean
}

/** A value that this column cannot hold unchanged. */
export class ColumnValueError extends Error {}

export function parameterOf(json: string | undefined, column: TableColumn): string | null {
  if (json === undefined || json === 'null') return null
  if (column.kind === 'json') return json
  const first = json.charCodeAt(0)
  if (first === quote) return textFor(stringValue(json), column)
  if (json === 'true' || json === 'false')
    return column.kind === 'text' || column.kind === 'enum' ? json : json === 'true' ? '1' : '0'
  if (first === openBrace || first === openBracket) return json
  return numberFor(json, column)
}

const quote = 0x22
const openBrace = 0x7b
const openBracket = 0x5b

function textFor(text: string, column: TableColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
      return calendarText(text, column)
    case 'integer':
    case 'bit':
      if (isFraction(text)) throw new ColumnValueError(`"${text}" is not a whole number`)
      return text
    case 'enum':
      return enumText(text, column)
    default:
      return text
  }
}

function numberFor(json: string, column: TableColumn): string {
  switch (column.kind) {
    case 'datetime':
    case 'date':
    case 'time':
      throw new ColumnValueError(
        `the number ${json} is not a time; send ISO 8601 text such as "2026-01-02T03:04:05Z"`,
      )
    case 'integer':
    case 'bit':
      if (isFraction(json)) throw new ColumnValueError(`${json} is not a whole number`)
      return json
    case 'enum':
      return enumText(json, column)
    default:
      return json
  }
}

/** Digits that are none of the values would be taken for the place of a value in the list. */
function enumText(text: string, column: TableColumn): string {
  if (/^\s*[0-9]+\s*$/.test(text) && !column.type.includes(`'${text}'`))
    throw new ColumnValueError(`${text} is none of ${column.type}`)
  return text
}

const number = /^\s*[+-]?([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?\s*$/

/** True for a decimal number with something after the point; false for whole numbers and for what is no number. */
function isFraction(text: string): boolean {
  const [, whole = '', fraction = '', exponent = '0'] = number.exec(text) ?? []
  const significant = fraction.replace(/0+$/, '')
  const digits = whole + significant
  const trailingZeros = significant === '' ? whole.length - whole.replace(/0+$/, '').length : 0
  const isZero = /^0*$/.test(digits)
  return !isZero && significant.length - trailingZeros > Number(exponent)
}

const iso8601 =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:[.,]([0-9]+))?([Zz]|[+-][0-9]{2}:?[0-9]{2})?$/

/** ISO 8601 as the server takes it, in UTC; a strict server refuses the Z. Anything else is left to the server. */
function calendarText(text: string, column: TableColumn): string {
  const match = iso8601.exec(text)
  if (match === null) return text
  const [, day = '', minutes = '', seconds = ':00', fraction = '', zone = 'Z'] = match
  const local = `${day} ${minutes}${seconds}`
  const utc = /^[Zz]$/.test(zone) ? local : shiftToUtc(local, zone)
  if (column.kind === 'date') return utc.slice(0, 10)
  // Cut, not rounded: rounding could move a time into the next day. MySQL would round, MariaDB cut.
  const kept = fraction.slice(0, column.timePrecision)
  return kept === '' ? utc : `${utc}.${kept}`
}

function shiftToUtc(local: string, zone: string): string {
  const asUtc = new Date(`${local.replace(' ', 'T')}Z`)
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))]
  // A date that does not exist (31 February) must be refused, not shifted into one that does.
  if (Number.isNaN(asUtc.getTime()) || printed(asUtc) !== local)
    throw new ColumnValueError(`"${local}" is not a time`)
  const offsetMs = (hours * 60 + minutes) * 60_000 * (zone.startsWith('-') ? -1 : 1)
  return printed(new Date(asUtc.getTime() - offsetMs))
}

function printed(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ')
}
