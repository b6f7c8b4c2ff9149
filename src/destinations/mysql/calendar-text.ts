/**
 * ISO 8601 as a MySQL-family server takes it, in UTC; a strict server rejects the Z. Scanned by hand: see
 * `number-text.ts`.
 *
 *   2026-01-02T03:04:05.678Z      2026-01-02 03:04+0200
 *   0         10    16 19         seconds, fraction and zone are optional
 */
import { ColumnValueError } from './column-value-error.ts'
import { endOfDigits, excerpt, isDigit } from './number-text.ts'

export interface CalendarColumn {
  kind: string
  /** Digits of a fraction of a second that the column keeps. */
  timePrecision: number
}

/** Anything but ISO 8601 is returned as it is: the server knows other spellings. */
export function calendarText(text: string, column: CalendarColumn): string {
  const parts = partsOf(text)
  if (parts === null) return text
  const { day, time, fraction, zone } = parts
  const local = `${day} ${time}`
  const utc = zone === 'Z' ? local : shiftToUtc(local, zone)
  if (column.kind === 'date') return utc.slice(0, 10)
  // Cut, not rounded: rounding could move a time into the next day. MySQL would round, MariaDB cut.
  const kept = fraction.slice(0, column.timePrecision)
  return kept === '' ? utc : `${utc}.${kept}`
}

interface CalendarParts {
  day: string
  /** `HH:MM:SS` */
  time: string
  fraction: string
  /** `Z`, `+0200` or `+02:00`. */
  zone: string
}

function partsOf(text: string): CalendarParts | null {
  if (!fits(text, 0, 'dddd-dd-dd') || !isSeparator(text[10]) || !fits(text, 11, 'dd:dd')) return null
  const hasSeconds = fits(text, 16, ':dd')
  let at = hasSeconds ? 19 : 16
  const time = `${text.slice(11, 16)}${hasSeconds ? text.slice(16, 19) : ':00'}`
  let fraction = ''
  if (text[at] === '.' || text[at] === ',') {
    const end = endOfDigits(text, at + 1, text.length)
    if (end === at + 1) return null
    fraction = text.slice(at + 1, end)
    at = end
  }
  const zone = zoneOf(text, at)
  return zone === null ? null : { day: text.slice(0, 10), time, fraction, zone }
}

/** The zone that the text ends with from `at` on; without one it is UTC. */
function zoneOf(text: string, at: number): string | null {
  const rest = text.length - at
  if (rest === 0) return 'Z'
  if (rest === 1) return text[at] === 'Z' || text[at] === 'z' ? 'Z' : null
  if (rest > 6 || (text[at] !== '+' && text[at] !== '-')) return null
  const isOffset = (rest === 5 && fits(text, at + 1, 'dddd')) || (rest === 6 && fits(text, at + 1, 'dd:dd'))
  return isOffset ? text.slice(at) : null
}

/** True when `pattern` stands at `at`, where d is any digit. */
function fits(text: string, at: number, pattern: string): boolean {
  for (let index = 0; index < pattern.length; index++) {
    const isFit =
      pattern[index] === 'd' ? isDigit(text.charCodeAt(at + index)) : text[at + index] === pattern[index]
    if (!isFit) return false
  }
  return true
}

function isSeparator(character: string | undefined): boolean {
  return character === 'T' || character === 't' || character === ' '
}

function shiftToUtc(local: string, zone: string): string {
  const asUtc = new Date(`${local.replace(' ', 'T')}Z`)
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))]
  // A date that does not exist (31 February) must be rejected, not shifted into one that does.
  if (Number.isNaN(asUtc.getTime()) || printed(asUtc) !== local)
    throw new ColumnValueError(`"${excerpt(local)}" is not a time`)
  const offsetMs = (hours * 60 + minutes) * 60_000 * (zone.startsWith('-') ? -1 : 1)
  return printed(new Date(asUtc.getTime() - offsetMs))
}

function printed(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ')
}
