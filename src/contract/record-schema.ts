/**
 * The schema of a pipe's records: a subset of JSON Schema 2020-12 (docs/schemas.md), and its verification. A keyword
 * outside the subset is a fault, because a keyword that is silently ignored would accept records that the user meant
 * to reject. Daemon, CLI and dashboard use this file. It loads no engine for patterns: the daemon passes one.
 *
 * `$ref` names a definition of the root's `$defs`. A definition is verified once. Its size counts at each reference,
 * so a few definitions that name each other twice cannot become millions of checks.
 */
import { isObject } from './is-object.ts'
import { type SchemaType, schemaFormats, schemaLimits, schemaTypes } from './schema-words.ts'

/** The root of a schema. Its keywords are those of `SchemaNode`. */
export type RecordSchema = Record<string, unknown>

/** A schema inside a verified schema. `true` accepts every value, `false` none. */
export type Subschema = SchemaNode | boolean
export interface SchemaNode {
  type?: SchemaType | readonly SchemaType[]
  enum?: readonly unknown[]
  const?: unknown
  properties?: Readonly<Record<string, Subschema>>
  required?: readonly string[]
  additionalProperties?: Subschema
  minProperties?: number
  maxProperties?: number
  items?: Subschema
  prefixItems?: readonly Subschema[]
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  minLength?: number
  maxLength?: number
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  multipleOf?: number
  anyOf?: readonly Subschema[]
  oneOf?: readonly Subschema[]
  allOf?: readonly Subschema[]
  not?: Subschema
  $ref?: string
  $defs?: Readonly<Record<string, Subschema>>
  title?: string
  description?: string
  default?: unknown
}

export interface SchemaProblem {
  /** The keys from the root to the faulty keyword. */
  path: readonly string[]
  message: string
}

/** Returns the fault of a pattern; null: it is valid. */
export type PatternFault = (pattern: string) => string | null

/** Returns the faults of a schema, at most 20. None: the schema can be used as a `SchemaNode`. */
export function verifySchema(
  schema: unknown,
  patternFault: PatternFault = () => null,
): readonly SchemaProblem[] {
  if (!isObject(schema)) return [{ path: [], message: 'must be a JSON object' }]
  return new Verification(schema, patternFault).run()
}

/** The name of the definition of a `$ref`; null: it names none of the root's `$defs`. */
export function definitionName(ref: string): string | null {
  if (!ref.startsWith('#/$defs/')) return null
  const text = ref.slice('#/$defs/'.length)
  if (text.includes('/')) return null
  try {
    return decodeURIComponent(text).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

/** The JSON Pointer (RFC 6901) of a path. */
export function jsonPointer(path: readonly string[]): string {
  return path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

const shownProblems = 20

class Verification {
  readonly #root: Record<string, unknown>
  readonly #patternFault: PatternFault
  readonly #problems: SchemaProblem[] = []
  /** Definition → the number of schemas in it. Null while it is being verified. */
  readonly #definitions = new Map<string, Size | null>()
  #patterns = 0

  constructor(root: Record<string, unknown>, patternFault: PatternFault) {
    this.#root = root
    this.#patternFault = patternFault
  }

  run(): readonly SchemaProblem[] {
    const text = JSON.stringify(this.#root)
    const bytes = new TextEncoder().encode(text).length
    if (bytes > schemaLimits.bytes)
      return [{ path: [], message: `must be at most ${schemaLimits.bytes} bytes of JSON, not ${bytes}` }]
    const size = this.#schema(this.#root, [], 1)
    this.#verifyDefinitions()
    if (this.#problems.length > 0) return this.#problems
    if (size.nodes > schemaLimits.nodes)
      this.#add([], `must have at most ${schemaLimits.nodes} schemas after its references are expanded`)
    if (size.depth > schemaLimits.depth)
      this.#add(
        [],
        `must be nested at most ${schemaLimits.depth} schemas deep after its references are expanded`,
      )
    return this.#problems
  }

  /** Definitions that no reference names count too. */
  #verifyDefinitions(): void {
    const { $defs } = this.#root
    if (!isObject($defs)) return
    for (const name of Object.keys($defs)) this.#definition(name, ['$defs', name], 1)
  }

  #add(path: readonly string[], message: string): void {
    if (this.#problems.length < shownProblems) this.#problems.push({ path, message })
  }

  #schema(schema: unknown, path: readonly string[], depth: number): Size {
    if (typeof schema === 'boolean') return { nodes: 1, depth: 1 }
    if (!isObject(schema)) {
      this.#add(path, 'must be a schema: an object, true or false')
      return { nodes: 1, depth: 1 }
    }
    if (depth > schemaLimits.depth) {
      this.#add(path, `is nested more than ${schemaLimits.depth} schemas deep`)
      return { nodes: 1, depth: 1 }
    }
    const size = { nodes: 1, depth: 1 }
    for (const [keyword, value] of Object.entries(schema)) {
      if (this.#problems.length >= shownProblems) break
      this.#keyword({ keyword, value, path: [...path, keyword], depth, size })
    }
    return size
  }

  #keyword(given: Given): void {
    const { keyword, value, path } = given
    if (keyword === '$ref') this.#reference(given)
    else if (keyword === '$defs') {
      if (path.length > 1) this.#add(path, 'must be at the root of the schema')
      else if (!isObject(value)) this.#add(path, 'must be an object of schemas')
    } else if (keyword === 'pattern') this.#pattern(path, value)
    else if (Object.hasOwn(subschemas, keyword)) this.#inner(given, subschemas[keyword]!)
    else {
      const fault = Object.hasOwn(plainKeywords, keyword) ? plainKeywords[keyword]!(value) : unknownKeyword
      if (fault !== null) this.#add(path, fault)
    }
  }

  #inner(given: Given, shape: 'one' | 'list' | 'map'): void {
    const { value, path, depth, size } = given
    const add = (inner: unknown, key: readonly string[]) =>
      enclose(size, this.#schema(inner, [...path, ...key], depth + 1))
    if (shape === 'one') add(value, [])
    else if (shape === 'list') {
      if (!Array.isArray(value) || value.length === 0)
        this.#add(path, 'must be a list of at least one schema')
      else for (const [index, inner] of value.entries()) add(inner, [String(index)])
    } else if (!isObject(value)) this.#add(path, 'must be an object of schemas')
    else for (const [name, inner] of Object.entries(value)) add(inner, [name])
  }

  #reference({ value, path, depth, size }: Given): void {
    const name = typeof value === 'string' ? definitionName(value) : null
    if (name === null) this.#add(path, 'must name a definition of this schema: #/$defs/NAME')
    else enclose(size, this.#definition(name, path, depth + 1))
  }

  #definition(name: string, path: readonly string[], depth: number): Size {
    const known = this.#definitions.get(name)
    if (known === null) this.#add(path, 'must not refer to itself, directly or through other definitions')
    if (known !== undefined) return known ?? { nodes: 1, depth: 1 }
    const { $defs } = this.#root
    if (!isObject($defs) || !Object.hasOwn($defs, name)) {
      this.#add(path, `names ${JSON.stringify(name)}, which is not in $defs`)
      return { nodes: 1, depth: 1 }
    }
    this.#definitions.set(name, null)
    const size = this.#schema($defs[name], ['$defs', name], depth)
    this.#definitions.set(name, size)
    return size
  }

  #pattern(path: readonly string[], value: unknown): void {
    this.#patterns += 1
    const { patterns, patternCharacters } = schemaLimits
    if (typeof value !== 'string') this.#add(path, 'must be a string: a regular expression of RE2')
    else if (value.length > patternCharacters)
      this.#add(path, `must be at most ${patternCharacters} characters, not ${value.length}`)
    else if (this.#patterns > patterns)
      this.#add(path, `is one pattern too many: at most ${patterns} are allowed`)
    else {
      const fault = this.#patternFault(value)
      if (fault !== null) this.#add(path, `must be a regular expression of RE2: ${fault}`)
    }
  }
}

interface Given {
  keyword: string
  value: unknown
  path: readonly string[]
  depth: number
  /** The size of the schema that has the keyword. */
  size: Size
}

interface Size {
  nodes: number
  depth: number
}

function enclose(outer: Size, inner: Size): void {
  outer.nodes = Math.min(outer.nodes + inner.nodes, Number.MAX_SAFE_INTEGER)
  outer.depth = Math.max(outer.depth, inner.depth + 1)
}

/** The keywords whose values are schemas. */
const subschemas: Readonly<Record<string, 'one' | 'list' | 'map'>> = {
  properties: 'map',
  additionalProperties: 'one',
  items: 'one',
  prefixItems: 'list',
  anyOf: 'list',
  oneOf: 'list',
  allOf: 'list',
  not: 'one',
}

/** Returns the fault of a keyword's value. */
type Fault = (value: unknown) => string | null

const holds =
  (isValid: (value: unknown) => boolean, message: string): Fault =>
  (value) =>
    isValid(value) ? null : message

const isText = (value: unknown): value is string => typeof value === 'string'
const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
const isDistinct = (list: readonly unknown[]) => new Set(list).size === list.length
const count = holds(isCount, 'must be a whole number of at least 0')
const number = holds(Number.isFinite, 'must be a number')
const text = holds(isText, 'must be a string')
const boolean = holds((value) => typeof value === 'boolean', 'must be true or false')
const anything: Fault = () => null

const typeList = schemaTypes.join(', ')
const isType = (value: unknown) => schemaTypes.some((type) => type === value)
const dialect = 'https://json-schema.org/draft/2020-12/schema'

/** The keywords whose values are no schemas. */
const plainKeywords: Readonly<Record<string, Fault>> = {
  type: holds(
    (value) =>
      Array.isArray(value) ? value.length > 0 && value.every(isType) && isDistinct(value) : isType(value),
    `must be one of ${typeList}, or a list of several of them`,
  ),
  enum: holds(
    (value) => Array.isArray(value) && value.length > 0 && value.length <= schemaLimits.enumValues,
    `must be a list of 1 to ${schemaLimits.enumValues} values`,
  ),
  const: anything,
  required: holds(
    (value) => Array.isArray(value) && value.every(isText) && isDistinct(value),
    'must be a list of distinct names',
  ),
  minProperties: count,
  maxProperties: count,
  minItems: count,
  maxItems: count,
  uniqueItems: boolean,
  minLength: count,
  maxLength: count,
  minimum: number,
  maximum: number,
  exclusiveMinimum: number,
  exclusiveMaximum: number,
  multipleOf: holds((value) => Number.isFinite(value) && Number(value) > 0, 'must be a number above 0'),
  format: holds(
    (value) => schemaFormats.some((format) => format === value),
    `must be one of ${schemaFormats.join(', ')}`,
  ),
  title: text,
  description: text,
  $comment: text,
  $id: text,
  $schema: holds((value) => value === dialect || value === `${dialect}#`, `must be ${dialect}`),
  default: anything,
  examples: holds(Array.isArray, 'must be a list'),
  deprecated: boolean,
}

const unknownKeyword = `is not a keyword of schemas of pipes. Allowed: ${[
  ...Object.keys(plainKeywords),
  ...Object.keys(subschemas),
  ...['pattern', '$ref', '$defs'],
].join(', ')}`
