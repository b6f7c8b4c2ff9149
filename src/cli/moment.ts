/** A moment on the command line: so long ago, or an ISO 8601 time. */
import { exitCodes, Failure } from '../client/failure.ts'
import { parseDuration } from '../quantities.ts'

/** As the API takes it. Throws Failure (usage), naming the option. */
export function requireMoment(text: string, option: string): string {
  const seconds = parseDuration(text)
  const ms = seconds === null ? Date.parse(text) : Date.now() - seconds * 1_000
  if (!Number.isNaN(ms)) return new Date(ms).toISOString()
  throw new Failure(
    exitCodes.usage,
    `${option} is ${JSON.stringify(text)}`,
    'give a time such as 1h or 7d, or a moment such as 2027-01-31T00:00:00Z',
  )
}
