/** Query parameters of /v1 that several use cases read. */
import type { FieldErrors } from '../contract/validate.ts'

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
