/**
 * Dates and times in a form that a MySQL-family server stores unchanged. Other forms are risky: the server guesses the century
 * of two-digit years, reads "1:2" as hours and minutes, drops the time from a DATE, and rounds or cuts fractions depending on
 * its version.
 *
 * Accepts ISO 8601, also without separators and with single digits. Years must have four digits, so nothing is guessed. No two
 * repetitions in a pattern here can match the same text, so each takes linear time.
 */
import { endOfDigits, excerpt, trimmed } from '../decimal-text.ts'
import { ColumnValueError } from './column-value-error.ts'

export interface CalendarColumn {
  kind: string
  /** Number of fractional digits of a second that the column keeps. */
  timePrecision: number
}

interface CalendarParts {
  /** `YYYY-MM-DD` */
  day: string
  /** `HH:MM:SS` */
  time: string
  fraction: string
  /** `Z`, `+0200` or `+02:00`. */
  zone: string
}

/**
 * Formats a text for a DATETIME or TIMESTAMP column in UTC, cut to the digits that it keeps. A DATE column gets the day as
 * written, as in PostgreSQL. Throws a ColumnValueError for any other spelling, and for a time of day that a DATE column would
 * drop.
 */
export function calendarText(text: string, column: CalendarColumn): string {
  const parts = partsOf(text)
  if (parts === null) throw new ColumnValueError(`"${excerpt(text)}" is not ISO 8601, ${sendIso(column)}`)
  const { day, time, fraction, zone } = parts
  if (column.kind === 'date') {
    if (time === midnight && isZero(fraction)) return day
    throw new ColumnValueError(`"${excerpt(text)}" has a time of day, which a DATE column drops`)
  }
  const utc = isUtc(zone) ? `${day} ${time}` : shiftToUtc(`${day} ${time}`, zone)
  // Cut, not rounded: rounding could move a time into the next day. MySQL would round, MariaDB would cut.
  const kept = fraction.slice(0, column.timePrecision)
  return kept === '' ? utc : `${utc}.${kept}`
}

/** For the error about an invalid day or time: the format that the column accepts. */
export function sendIso({ kind }: CalendarColumn): string {
  const example = { date: '2026-01-02', time: '03:04:05' }[kind] ?? '2026-01-02T03:04:05Z'
  return `such as "${example}"`
}

const midnight = '00:00:00'
const calendar =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[Tt ](\d\d?):(\d\d?)(?::(\d\d?)(?:[.,](\d+))?)?)?([Zz]|[+-]\d\d:?\d\d)?$/

function partsOf(text: string): CalendarParts | null {
  const { start, end } = trimmed(text)
  const found = calendar.exec(withSeparators(text.slice(start, end)))
  if (found === null) return null
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = '', zone = 'Z'] = found
  return {
    day: `${year}-${twoDigits(month)}-${twoDigits(day)}`,
    time: `${twoDigits(hour)}:${twoDigits(minute)}:${twoDigits(second)}`,
    fraction,
    zone,
  }
}

/** Separates 20260102, 20260102030405 and 20260102T030405, each with its suffix. Any other text is returned unchanged. */
function withSeparators(text: string): string {
  const run = endOfDigits(text, 0, text.length)
  if (run !== 8 && run !== 14) return text
  const day = `${text.slice(0, 4)}-${text.slice(4, 6)}-${text.slice(6, 8)}`
  const at = run === 14 ? 8 : 9
  if (run === 8 && endOfDigits(text, at, text.length) !== at + 6) return day + text.slice(8)
  return `${day}T${text.slice(at, at + 2)}:${text.slice(at + 2, at + 4)}:${text.slice(at + 4)}`
}

function twoDigits(digits = ''): string {
  return digits.padStart(2, '0')
}

function isUtc(zone: string): boolean {
  return zone === 'Z' || zone === 'z'
}

function shiftToUtc(local: string, zone: string): string {
  const asUtc = new Date(`${local.replace(' ', 'T')}Z`)
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))]
  // A date that does not exist (31 February) must be rejected, not shifted into an existing one.
  if (Number.isNaN(asUtc.getTime()) || printed(asUtc) !== local || hours > 15 || minutes > 59)
    throw new ColumnValueError(`"${excerpt(local + zone)}" is not a time`)
  const offsetMs = (hours * 60 + minutes) * 60_000 * (zone.startsWith('-') ? -1 : 1)
  const shifted = printed(new Date(asUtc.getTime() - offsetMs))
  // Before the year 0 and after 9999 a year has a sign and six digits.
  if (shifted.length > 0 && (shifted[0] === '-' || shifted[0] === '+'))
    throw new ColumnValueError(`"${excerpt(local + zone)}" is in UTC outside the years 0 to 9999`)
  return shifted
}

function printed(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ')
}

const clock = /^-?(?:\d\d? )?\d{1,3}:\d\d(?::\d\d(?:\.(\d+))?)?$/

/**
 * Formats a text for a TIME column: hours and minutes, with or without seconds. Throws a ColumnValueError if the column would
 * drop a digit.
 */
export function timeText(text: string, column: CalendarColumn): string {
  const { start, end } = trimmed(text)
  const found = clock.exec(text.slice(start, end))
  if (found === null)
    throw new ColumnValueError(`"${excerpt(text)}" is not hours, minutes and seconds, ${sendIso(column)}`)
  const [whole, fraction = ''] = found
  if (!isZero(fraction.slice(column.timePrecision)))
    throw new ColumnValueError(
      `"${excerpt(text)}" has more digits of a second than the column (${column.timePrecision})`,
    )
  return fraction === '' ? whole : whole.slice(0, whole.length - fraction.length + column.timePrecision)
}

function isZero(digits: string): boolean {
  for (let at = 0; at < digits.length; at++) if (digits[at] !== '0') return false
  return true
}
