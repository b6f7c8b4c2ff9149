/**
 * Checks a body against its schema and says what is wrong in words for people: the flat `errors` map of
 * `validation_error` (docs/dev/contract.md#validation-errors): dot-joined path → a sentence.
 *
 * The library's findings need work before a person can read them: a missing key is reported on its parent, an unknown
 * key twice, and a union once for every alternative and once more for itself. One sentence per path is kept.
 */
import type { Static, TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'
import { Settings } from 'typebox/system'
import { Check, Errors } from 'typebox/value'
import { validationError } from './errors.ts'
import { isObject } from './is-object.ts'
import { resourceLimits } from './resource-limits.ts'

export type FieldErrors = Record<string, string>
const unknownField = 'Unknown field.'
const requiredField = 'is required'

/** The value, typed, or throws `validation_error` naming every wrong field. */
export function validate<S extends TSchema>(schema: S, value: unknown): Static<S> {
  if (Check(schema, value) && !hasLoneSurrogates(value)) return value
  throw validationError(explain(schema, value))
}

/** Throws `validation_error` when there is any. */
export function throwIfErrors(errors: FieldErrors): void {
  if (Object.keys(errors).length > 0) throw validationError(errors)
}

/**
 * The wrong fields of `value`, where they are many the first hundred or so; empty when it fits. `prefix` is put before
 * each path, e.g. `destination_config`.
 */
export function explain(schema: TSchema, value: unknown, prefix = ''): FieldErrors {
  // No prototype: a field of the caller's may be named __proto__.
  const errors: FieldErrors = Object.create(null)
  const byPlace = new Map<string, TLocalizedValidationError[]>()
  for (const error of allErrors(schema, value)) {
    const found = byPlace.get(error.instancePath)
    if (found) found.push(error)
    else byPlace.set(error.instancePath, [error])
  }
  for (const [pointer, found] of byPlace) {
    const path = join(prefix, pointerPath(pointer))
    for (const error of found) {
      if (error.keyword === 'required')
        for (const key of error.params.requiredProperties) errors[join(path, [key])] ??= requiredField
      if (error.keyword === 'additionalProperties')
        for (const key of error.params.additionalProperties) errors[join(path, [key])] = unknownField
    }
    const isRightType =
      found.some(({ keyword }) => keyword === 'required' || keyword === 'additionalProperties') ||
      [...byPlace.keys()].some((other) => other.startsWith(`${pointer}/`))
    const sentence = sentenceFor(found, valueAt(value, pointerPath(pointer)), isRightType)
    if (sentence !== null) errors[path] ??= sentence
  }
  for (const path of loneSurrogates(value, [])) errors[join(prefix, path)] = 'must be valid Unicode text'
  return errors
}

/** The library stops after eight errors; a person wants more of them, though not without end. */
function allErrors(schema: TSchema, value: unknown): TLocalizedValidationError[] {
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: resourceLimits.explainedFields })
  try {
    return Errors(schema, value)
  } finally {
    Settings.Set({ maxErrors })
  }
}

/** Asked of every body: without the paths, which only an error needs. */
function hasLoneSurrogates(value: unknown): boolean {
  if (typeof value === 'string') return loneSurrogate.test(value)
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([key, inner]) => loneSurrogate.test(key) || hasLoneSurrogates(inner))
}

/** The paths of texts and keys that no UTF-8 can carry (docs/dev/contract.md#request-bodies): stored, they would come back as U+FFFD. */
function* loneSurrogates(value: unknown, path: readonly string[]): Generator<readonly string[]> {
  if (typeof value === 'string') {
    if (loneSurrogate.test(value)) yield path
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      if (loneSurrogate.test(key)) yield [...path, key]
      else yield* loneSurrogates(inner, [...path, key])
    }
  }
}
/** With the u flag the two halves of a pair are one character of another category. */
const loneSurrogate = /\p{Surrogate}/u

/** The body as an object, for rules that need one before its schema is known. Throws `validation_error` on `""`. */
export function requireObject(body: unknown): Record<string, unknown> {
  if (isObject(body)) return body
  throw validationError({ '': body === undefined ? 'The body must be a JSON object.' : notAnObject(body) })
}

const notAnObject = (body: unknown) => `The body must be a JSON object, not ${describe(body)}.`

/**
 * One sentence for all the findings at one place; null when they speak of other places (missing and unknown keys).
 * `isRightType`: something within the value is wrong, so the alternatives that take another type say nothing.
 */
function sentenceFor(
  found: readonly TLocalizedValidationError[],
  value: unknown,
  isRightType: boolean,
): string | null {
  const own = found.filter((error) => !elsewhere.has(error.keyword))
  // An alternative that takes another type says nothing to someone whose value has the right one.
  const telling = own.find((error) => error.keyword !== 'type')
  if (telling) return sentence(telling, value)
  const types = own.flatMap((error) => (error.keyword === 'type' ? error.params.type : []))
  if (types.length === 0 || isRightType) return null
  const isNumeric = types.includes('integer') || types.includes('number')
  const given = isNumeric && typeof value === 'number' ? String(value) : describe(value)
  return `must be ${[...new Set(types)].map((type) => typeNames[type] ?? type).join(' or ')}, not ${given}`
}
const elsewhere = new Set(['required', 'additionalProperties', 'boolean', 'anyOf', 'oneOf', 'allOf'])

const typeNames: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function sentence(error: TLocalizedValidationError, value: unknown): string {
  switch (error.keyword) {
    case 'minLength':
      return error.params.limit === 1
        ? 'must not be empty'
        : `must be at least ${error.params.limit} characters, not ${lengthOf(value)}`
    case 'maxLength':
      return `must be at most ${error.params.limit} characters, not ${lengthOf(value)}`
    case 'minimum':
      return `must be at least ${error.params.limit}, not ${String(value)}`
    case 'maximum':
      return `must be at most ${error.params.limit}, not ${String(value)}`
    case 'minItems':
      return `must hold at least ${error.params.limit}`
    case 'maxItems':
      return `must hold at most ${error.params.limit}, not ${lengthOf(value)}`
    case 'maxProperties':
      return `must hold at most ${error.params.limit} keys`
    case 'enum':
      return `must be one of ${error.params.allowedValues.join(', ')}`
    case 'const':
      return `must be ${JSON.stringify(error.params.allowedValue)}`
    case 'pattern':
      return patternWords[String(error.params.pattern)] ?? `must match ${error.params.pattern}`
    case 'format':
      return `must be a ${error.params.format}`
    default:
      return error.message
  }
}

/** The pattern of texts in which control characters have no place (docs/dev/contract.md#request-bodies). */
export const withoutControls = '^[^\\u0000-\\u001F\\u007F-\\u009F]*$'

/** PIPE/NAME is split at its slash, and blanks at the ends are not seen. */
export const destinationNamePattern =
  '^(?! )[^\\u0000-\\u001F\\u007F-\\u009F/]*[^\\u0000-\\u0020\\u007F-\\u009F/]$'

/** ASCII alone: names that look alike would be different accounts. */
export const emailPattern =
  "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$"

/** What a pattern of the contract asks for, in words: by the pattern itself, so that a schema needs no second text. */
const patternWords: Record<string, string> = {
  '^[A-Za-z0-9_-]+$': 'must hold only letters, digits, hyphens and underscores',
  '^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$':
    'must be http:// or https:// and a host of letters, digits, dots and hyphens, with an optional :port and no path',
  [emailPattern]: 'must be an e-mail address such as ada@example.com',
  [withoutControls]: 'must not contain control characters',
  [destinationNamePattern]: 'must not hold a slash or control characters, nor begin or end with a space',
  '^[0-9]{1,5}$': 'must be a port number from 1 to 65535',
}

/** What was found, by its kind alone: the value may be a secret that was put in the wrong place or type. */
function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string'
  return typeof value === 'number' ? 'a number' : String(value)
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value) ? [...value].length : 0
}

/** A JSON pointer's keys. */
function pointerPath(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function join(prefix: string, path: readonly string[]): string {
  return [...(prefix === '' ? [] : [prefix]), ...path].join('.')
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let at: unknown = value
  for (const key of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}
