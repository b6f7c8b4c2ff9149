/**
 * Checks a body against its schema and says what is wrong in words for people: the flat `errors` map of
 * `validation_error` (docs/dev/contract.md#validation-errors): dot-joined path → a sentence.
 *
 * The compiled schema decides. The words are our own walk through schema and value, whose work is bounded by the number of
 * faults that it names; `Errors()` of the library words single values.
 */
import type { Static, TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'
import { Compile, Errors, type Validator } from 'typebox/schema'
import { validationError } from './errors.ts'
import { isObject } from './is-object.ts'
import { resourceLimits } from './resource-limits.ts'

export type FieldErrors = Record<string, string>
const unknownField = 'Unknown field.'
const requiredField = 'is required'

/** The value, typed, or throws `validation_error` naming every wrong field. */
export function validate<S extends TSchema>(schema: S, value: unknown): Static<S> {
  throwIfErrors(shapeFaults(schema, value))
  // Without faults it fits the schema.
  return value as Static<S>
}

/** Throws `validation_error` when there is any. */
export function throwIfErrors(errors: FieldErrors): void {
  if (Object.keys(errors).length > 0) throw validationError(errors)
}

/**
 * The wrong fields of `value`, at most `explainedFields` of them; empty only when the value fits: the schema decides that, and
 * the words for it are found afterwards. `prefix` is put before each path, e.g. `destination_config`.
 */
export function shapeFaults(schema: TSchema, value: unknown, prefix = ''): FieldErrors {
  const faults = new Faults(prefix)
  if (!fits(schema, value)) {
    explain(schema, value, [], faults)
    if (faults.count === 0) faults.add([], 'does not have the required structure')
  }
  if (!faults.isFull && hasLoneSurrogates(value)) {
    for (const path of loneSurrogates(value, [])) faults.replace(path, 'must be valid Unicode text')
  }
  return faults.errors
}

/**
 * Throws `validation_error` on `path` when a value is in the list twice. Not a keyword of the schema: `uniqueItems` of the library
 * takes time that grows with the square of the number of equal elements.
 */
export function requireDistinct(path: string, list: readonly unknown[] | undefined): void {
  if (list !== undefined && new Set(list).size < list.length)
    throw validationError({ [path]: 'must not contain the same value twice' })
}

/** Compiled with the first value: without that, 1,600 columns that fit take 18 ms, and 0.3 ms with it. */
export function fits<S extends TSchema>(schema: S, value: unknown): value is Static<S> {
  let validator = validators.get(schema)
  if (validator === undefined) {
    validator = Compile(schema)
    validators.set(schema, validator)
  }
  return validator.Check(value)
}
const validators = new WeakMap<TSchema, Validator>()

/** The faults of one value, up to `explainedFields`: what is beyond them costs no further work. */
class Faults {
  // No prototype: a field of the caller's may be named __proto__.
  readonly errors: FieldErrors = Object.create(null)
  count = 0
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  get isFull(): boolean {
    return this.count >= resourceLimits.explainedFields
  }

  /** The first sentence for a path is kept. */
  add(path: readonly string[], sentence: string): void {
    if (!Object.hasOwn(this.errors, join(this.#prefix, path))) this.replace(path, sentence)
  }

  replace(path: readonly string[], sentence: string): void {
    const name = join(this.#prefix, path)
    const isNew = !Object.hasOwn(this.errors, name)
    if (isNew && this.isFull) return
    if (isNew) this.count += 1
    this.errors[name] = sentence
  }
}

/**
 * Words for a value that its schema rejects. The library's `Errors()` looks at every element of every list whatever it has
 * found already, and reports nothing beyond its hundredth finding. So lists and objects are walked here, only into elements
 * that are rejected and only until the faults are full, and `Errors()` sees single values.
 */
function explain(schema: TSchema, value: unknown, path: readonly string[], faults: Faults): void {
  const shape = alternativeFor(schema, value)
  if (Array.isArray(value) && shape !== null) explainList(shape, value, path, faults)
  else if (isObject(value) && shape !== null) explainObject(shape, value, path, faults)
  else if (isObject(value) && discriminated(schema)) {
    const { key, names } = discriminated(schema)!
    const isGiven = Object.hasOwn(value, key)
    faults.add([...path, key], isGiven ? `must be one of ${names.join(', ')}` : requiredField)
  } else explainValue(schema, value, path, faults)
}

const elements = (many: number): string => (many === 1 ? '1 element' : `${many} elements`)

function explainList(
  schema: Shape,
  value: readonly unknown[],
  path: readonly string[],
  faults: Faults,
): void {
  const { items, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
  if (value.length > maxItems)
    faults.add(path, `must have at most ${elements(maxItems)}, not ${value.length}`)
  else if (value.length < minItems) faults.add(path, `must have at least ${elements(minItems)}`)
  if (items === undefined || value.length > maxItems) return
  for (const [index, item] of value.entries()) {
    if (faults.isFull) return
    if (!fits(items, item)) explain(items, item, [...path, String(index)], faults)
  }
}

function explainObject(
  schema: Shape,
  value: Record<string, unknown>,
  path: readonly string[],
  faults: Faults,
): void {
  const { properties = {}, patternProperties = {}, additionalProperties, required = [] } = schema
  const { maxProperties = Number.POSITIVE_INFINITY } = schema
  const [forAnyKey] = Object.values(patternProperties)
  const keys = Object.keys(value)
  if (keys.length > maxProperties) {
    faults.add(path, `must have at most ${maxProperties} keys`)
    return
  }
  for (const key of required) if (!Object.hasOwn(value, key)) faults.add([...path, key], requiredField)
  for (const key of keys) {
    if (faults.isFull) return
    const field = Object.hasOwn(properties, key) ? properties[key] : forAnyKey
    const isUnknown = field === undefined && additionalProperties === false
    if (isUnknown) faults.add([...path, key], refusalOf(schema, key))
    if (field && !fits(field, value[key])) explain(field, value[key], [...path, key], faults)
  }
}

function refusalOf({ refusals = noRefusals }: Shape, key: string): string {
  return Object.hasOwn(refusals, key) ? refusals[key]! : unknownField
}

/** A single value, or one of a type that the schema does not take. */
function explainValue(schema: TSchema, value: unknown, path: readonly string[], faults: Faults): void {
  const content = Array.isArray(value) ? [] : isObject(value) ? {} : value
  const [, found] = Errors(schema, content)
  const own = found.filter(({ instancePath }) => instancePath === '')
  const words = sentenceFor(own, content)
  if (words !== null) faults.add(path, words)
}

/** The keywords of a schema that are read here; which of them are present depends on its kind. */
interface Shape extends TSchema {
  type?: string
  anyOf?: readonly Shape[]
  enum?: readonly unknown[]
  items?: Shape
  minItems?: number
  maxItems?: number
  properties?: Record<string, Shape>
  patternProperties?: Record<string, Shape>
  additionalProperties?: boolean
  required?: readonly string[]
  maxProperties?: number
  refusals?: Refusals
}

/** Sentences for keys that an object does not take although others of its kind do, by key. */
export type Refusals = Readonly<Record<string, string>>
const noRefusals: Refusals = {}

/** The schema, or the only one of its alternatives, that takes lists where the value is one, or such objects; null: none does. */
function alternativeFor(schema: Shape, value: unknown): Shape | null {
  const type = Array.isArray(value) ? 'array' : 'object'
  const alternatives = (schema.anyOf ?? [schema]).filter((one) => one.type === type)
  if (alternatives.length < 2 || !isObject(value)) return alternatives[0] ?? null
  const found = discriminated(schema)
  if (found === null) return null
  const { key, named, unnamed } = found
  if (unnamed?.required?.some((name) => Object.hasOwn(value, name))) return unnamed
  return named.find(({ properties }) => nameIn(properties, key) === value[key]) ?? null
}

interface Discriminated {
  /** By whose only value each of `named` is told from the others. */
  key: string
  named: readonly Shape[]
  names: readonly string[]
  /** The only alternative without that key, told from the others by a key that it requires; null: there is none. */
  unnamed: Shape | null
}

/** Null: the alternatives are no union of objects of which all but one are told apart by one key. */
function discriminated({ anyOf = [] }: Shape): Discriminated | null {
  const objects = anyOf.filter(({ type }) => type === 'object')
  const keys = Object.keys(objects[0]?.properties ?? {})
  const key = keys.find((name) => nameIn(objects[0]?.properties, name) !== undefined)
  if (objects.length < 2 || key === undefined) return null
  const named = objects.filter(({ properties }) => nameIn(properties, key) !== undefined)
  const [unnamed = null, ...others] = objects.filter((one) => !named.includes(one))
  if (others.length > 0) return null
  return { key, named, unnamed, names: named.map(({ properties }) => String(nameIn(properties, key))) }
}

/** The only value that this property can have; undefined: it can have several. */
function nameIn(properties: Shape['properties'], key: string): unknown {
  const values = properties?.[key]?.enum
  return values?.length === 1 ? values[0] : undefined
}

/** Asked of every body, so without the paths, which only an error needs, and without a list of each object's entries. */
function hasLoneSurrogates(value: unknown): boolean {
  if (typeof value === 'string') return !value.isWellFormed()
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasLoneSurrogates)
  // The value is parsed JSON, whose keys are all its own.
  for (const key in value) {
    if (!key.isWellFormed() || hasLoneSurrogates((value as Record<string, unknown>)[key])) return true
  }
  return false
}

/** The paths of texts and keys that no UTF-8 can carry (docs/dev/contract.md#request-bodies): stored, they would come back as U+FFFD. */
function* loneSurrogates(value: unknown, path: readonly string[]): Generator<readonly string[]> {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) yield path
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      if (!key.isWellFormed()) yield [...path, key]
      else yield* loneSurrogates(inner, [...path, key])
    }
  }
}
/** The body as an object, for rules that need one before its schema is known. Throws `validation_error` on `""`. */
export function requireObject(body: unknown): Record<string, unknown> {
  if (isObject(body)) return body
  throw validationError({ '': body === undefined ? 'The body must be a JSON object.' : notAnObject(body) })
}

const notAnObject = (body: unknown) => `The body must be a JSON object, not ${describe(body)}.`

/** One sentence for all the findings about one value; null when there are none in words. */
function sentenceFor(found: readonly TLocalizedValidationError[], value: unknown): string | null {
  const own = found.filter((error) => !ofAlternatives.has(error.keyword))
  // An alternative that takes another type says nothing to someone whose value has the right one.
  const telling = own.find((error) => error.keyword !== 'type')
  if (telling) return sentence(telling, value)
  const types = own.flatMap((error) => (error.keyword === 'type' ? error.params.type : []))
  if (types.length === 0) return null
  const isNumeric = types.includes('integer') || types.includes('number')
  const given = isNumeric && typeof value === 'number' ? String(value) : describe(value)
  return `must be ${[...new Set(types)].map((type) => typeNames[type] ?? type).join(' or ')}, not ${given}`
}
const ofAlternatives = new Set(['required', 'boolean', 'anyOf', 'oneOf', 'allOf'])

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
    case 'enum':
      return `must be one of ${error.params.allowedValues.join(', ')}`
    case 'const':
      return `must be ${JSON.stringify(error.params.allowedValue)}`
    case 'pattern':
      return patternWords[String(error.params.pattern)] ?? `must match ${error.params.pattern}`
    case 'format':
      return formatWords[String(error.params.format)] ?? `must be a ${error.params.format}`
    default:
      return error.message
  }
}

const formatWords: Record<string, string> = {
  'date-time': 'must be an ISO 8601 time such as 2026-01-31T12:00:00Z',
}

/** The pattern of texts in which control characters have no place (docs/dev/contract.md#request-bodies). */
export const withoutControls = '^[^\\u0000-\\u001F\\u007F-\\u009F]*$'

/** PIPE/NAME is split at its slash, and blanks at the ends are not seen. */
export const destinationNamePattern =
  '^(?! )[^\\u0000-\\u001F\\u007F-\\u009F/]*[^\\u0000-\\u0020\\u007F-\\u009F/]$'

/** `next` of a page of parked records: a stream_seq and the place of a record, -1 for a whole message. */
export const parkedNextPattern = '^[0-9]{1,15}\\.(-1|[0-9]{1,15})$'

/** ASCII alone: names that look alike would be different accounts. */
export const emailPattern =
  "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$"

/** Explains each pattern of the contract. The key is the pattern itself, so that a schema needs no second text. */
const patternWords: Record<string, string> = {
  '^[A-Za-z0-9_-]+$': 'must contain only letters, digits, hyphens and underscores',
  '^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$':
    'must be http:// or https:// and a host of letters, digits, dots and hyphens, with an optional :port and no path',
  [emailPattern]: 'must be an e-mail address such as ada@example.com',
  [parkedNextPattern]: 'must be the `next` of the previous page',
  [withoutControls]: 'must not contain control characters',
  [destinationNamePattern]: 'must not contain a slash or control characters, nor begin or end with a space',
  '^[0-9]{1,5}$': 'must be a port number from 1 to 65535',
}

/**
 * Names only the kind of the value: the value itself may be a secret that was put in the wrong field or has the wrong
 * type.
 */
function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string'
  return typeof value === 'number' ? 'a number' : String(value)
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? [...value].length : 0
}

function join(prefix: string, path: readonly string[]): string {
  return [...(prefix === '' ? [] : [prefix]), ...path].join('.')
}
