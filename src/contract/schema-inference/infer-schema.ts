/**
 * Proposes a schema from records. The schema accepts every record that was added.
 *
 * Pure, and free of other modules, because the daemon and the CLI both use it.
 */
import { type Budget, inferenceLimits, type Kind, type Members, Shape } from './shape.ts'
import { isOpenText } from './string-facts.ts'

export type JsonSchema = { [keyword: string]: unknown }

export interface InferenceOptions {
  /** Propose `enum` for strings with few distinct values. Default: true. */
  enums?: boolean
  /** Propose `format`. Default: true. */
  formats?: boolean
  /** False: objects accept no other keys than those that were seen. Default: true. */
  additionalProperties?: boolean
  /** Propose `minimum: 0` where no number was negative. Default: false. */
  minimums?: boolean
}

/** Numbers from which on `minimum: 0` is proposed. */
const minimumOccurrences = 100
/** Bytes of JSON: half of what a schema can have, so that a person can extend it. */
const maxSchemaCharacters = 32 * 1024

export class SchemaInference {
  readonly #root: Shape
  readonly #ignored: ReadonlySet<string>
  #records = 0

  /** `ignored`: top-level keys that the pipe adds to records, and the client does not send. */
  constructor(ignored: Iterable<string> = []) {
    const budget: Budget = { paths: inferenceLimits.paths, characters: inferenceLimits.keysCharacters }
    this.#root = new Shape(budget, 0)
    this.#ignored = new Set(ignored)
  }

  get records(): number {
    return this.#records
  }

  /** `record`: as JSON.parse returns it. */
  add(record: object): void {
    this.#records += 1
    this.#root.addObject(record, this.#ignored)
  }

  /** Details are left out from the deepest level up until the schema has a size that a person can read. */
  schema(options: InferenceOptions = {}): { schema: JsonSchema; notes: string[] } {
    const { paths } = inferenceLimits
    for (let depth: number = inferenceLimits.depth; ; depth -= 1) {
      const writer = new SchemaWriter(options, depth)
      const schema = writer.record(this.#root.members)
      if (depth > 0 && JSON.stringify(schema).length > maxSchemaCharacters) continue
      const notes = [...writer.notes]
      if (depth < inferenceLimits.depth)
        notes.push(`Values more than ${depth} levels deep are not described: the schema would be too long.`)
      if (writer.hasPartial)
        notes.push(
          `Some values have no rules: at most ${paths} paths of limited depth and length are described.`,
        )
      return { schema, notes }
    }
  }
}

class SchemaWriter {
  readonly #options: Required<InferenceOptions>
  readonly #maxDepth: number
  readonly notes: string[] = []
  hasPartial = false

  constructor({ enums, formats, additionalProperties, minimums }: InferenceOptions, maxDepth: number) {
    this.#options = {
      enums: enums ?? true,
      formats: formats ?? true,
      additionalProperties: additionalProperties ?? true,
      minimums: minimums ?? false,
    }
    this.#maxDepth = maxDepth
  }

  record(members: Members | null): JsonSchema {
    const $schema = 'https://json-schema.org/draft/2020-12/schema'
    const rules = members === null ? {} : this.#members(members, '', 0)
    return { $schema, type: 'object', ...rules }
  }

  /** `key`: the nearest key above the value. */
  #value(shape: Shape, key: string, path: string, depth: number): JsonSchema {
    // No type of JSON Schema accepts a number that a double cannot hold.
    if (shape.countOf('infinite') > 0 || shape.kinds.size === 0) return {}
    const types = typesOf(shape.kinds)
    const schema: JsonSchema = { type: types.length === 1 ? types[0] : types }
    Object.assign(schema, this.#stringRules(shape, types, key), this.#numberRules(shape))
    const { members, items } = shape
    if (depth >= this.#maxDepth) return schema
    if (items !== null) schema.items = this.#value(items, key, `${path}[]`, depth + 1)
    if (members !== null) Object.assign(schema, this.#members(members, path, depth + 1))
    return schema
  }

  #members(members: Members, path: string, depth: number): JsonSchema {
    if (members.looksLikeMap) members.toMap()
    if (members.values === null) return this.#namedMembers(members, path, depth)
    if (members.isPartial) {
      this.hasPartial = true
      return {}
    }
    const subject = path === '' ? 'The record' : path
    this.notes.push(
      `${subject} has keys that differ from record to record: one rule describes all its values.`,
    )
    return { additionalProperties: this.#value(members.values, '', `${path}.*`, depth) }
  }

  #namedMembers(members: Members, path: string, depth: number): JsonSchema {
    if (members.isPartial) this.hasPartial = true
    const entries = [...members.properties].map(([key, shape]): [string, JsonSchema] => [
      key,
      this.#value(shape, key, path === '' ? key : `${path}.${key}`, depth),
    ])
    const required = [...members.properties]
      .filter(([, shape]) => occurrencesOf(shape) === members.objects)
      .map(([key]) => key)
    const isClosed = !this.#options.additionalProperties && !members.isPartial
    return {
      ...(entries.length > 0 ? { properties: Object.fromEntries(entries) } : {}),
      ...(required.length > 0 ? { required } : {}),
      ...(isClosed ? { additionalProperties: false } : {}),
    }
  }

  #stringRules({ strings }: Shape, types: readonly string[], key: string): JsonSchema {
    const others = types.filter((type) => type !== 'string' && type !== 'null')
    if (strings === null || others.length > 0) return {}
    const format = strings.format
    if (format !== null) return this.#options.formats ? { format } : {}
    const values = this.#options.enums && !isOpenText(key) ? strings.enum : null
    if (values === null) return {}
    return { enum: types.includes('null') ? [...values, null] : values }
  }

  #numberRules(shape: Shape): JsonSchema {
    const numbers = shape.countOf('integer') + shape.countOf('decimal')
    const isCount = this.#options.minimums && numbers >= minimumOccurrences && shape.lowest >= 0
    return isCount ? { minimum: 0 } : {}
  }
}

function occurrencesOf({ kinds }: Shape): number {
  return [...kinds.values()].reduce((sum, times) => sum + times, 0)
}

function typesOf(kinds: ReadonlyMap<Kind, number>): string[] {
  const types = ['object', 'array', 'string', 'boolean', 'null'].filter((kind) => kinds.has(kind as Kind))
  if (kinds.has('decimal')) types.unshift('number')
  else if (kinds.has('integer')) types.unshift('integer')
  return types.sort((a, b) => Number(a === 'null') - Number(b === 'null'))
}
