/** Query parameters of /v1 that several use cases read. */
import type { FieldErrors } from '../../contract/validate.ts'

/** An ISO 8601 time, ms since the epoch. Null: not given, or not allowed, which `errors` then says. */
export function isoMoment(text: string | null, name: string, errors: FieldErrors): number | null {
  if (text === null) return null
  const ms = /^\d{4}-\d{2}-\d{2}(T|$)/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return ms
  errors[name] = 'must be an ISO 8601 time such as 2026-01-31T12:00:00Z'
  return null
}

/** Null: not given, or not allowed, which `errors` then says under its name. */
export function wholeNumber(
  text: string | null,
  name: string,
  { min, max }: { min: number; max: number },
  errors: FieldErrors,
): number | null {
  if (text === null) return null
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  errors[name] = `must be a whole number from ${min} to ${max}`
  return null
}
