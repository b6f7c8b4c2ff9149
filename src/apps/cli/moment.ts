/** A time on the command line: a duration before now, a day, or an ISO 8601 time. */
import { parseDuration } from '../../platform/quantities.ts'
import { usageFailure } from '../client/failure.ts'

/**
 * The time in the form of the API. Days start at midnight, local time. Throws Failure (usage), which names the
 * option.
 */
export function requireMoment(text: string, option: string): string {
  const ms = momentMs(text, new Date())
  if (!Number.isNaN(ms)) return new Date(ms).toISOString()
  throw usageFailure(
    `${option} is ${JSON.stringify(text)}`,
    'give a time ago such as 2h or 7d, today, yesterday, or a moment such as 2027-01-31T00:00:00Z',
  )
}

/** How long ago `2h` or `-2h` is, in ms. Null: the text is not a duration. */
export function agoMs(text: string): number | null {
  const seconds = parseDuration(text.replace(/^-/, ''))
  return seconds === null ? null : seconds * 1_000
}

function momentMs(text: string, now: Date): number {
  const ms = agoMs(text)
  if (ms !== null) return now.getTime() - ms
  if (text === 'today' || text === 'yesterday')
    return new Date(now.getFullYear(), now.getMonth(), now.getDate() - (text === 'today' ? 0 : 1)).getTime()
  // Date.parse accepts texts that are not dates, such as "x 7".
  return /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN
}
