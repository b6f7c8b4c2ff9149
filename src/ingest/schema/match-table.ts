/**
 * Writes a schema as the table by which the scanner confirms records without JSON.parse (src/ingest/scanner/match.ts,
 * which describes its layout). Keywords that the scanner does not know (`pattern`, `anyOf`, …) are checked for their
 * value alone, after JSON.parse of that value.
 */
import { definitionName, type SchemaNode, type Subschema } from '../../contract/record-schema.ts'
import type { SchemaType } from '../../contract/schema-words.ts'
import { writeSet } from './match-set.ts'
import type { Check } from './run.ts'
import { TableWriter } from './table-writer.ts'

export interface MatchTable {
  bytes: Buffer
  /** The rule of a record. */
  root: number
  /** The checks of single values, by the number in their rule. */
  checks: readonly Check[]
}

/** The address of a rule, or one of these. Check n is 4n + 2. */
const nothing = 0
const anything = 1

type Rule = number

/** Null: the scanner cannot check the schema. `check` compiles the check of a schema inside `root`. */
export function matchTable(root: SchemaNode, check: (schema: Subschema) => Check): MatchTable | null {
  // One JSON.parse of the body is faster than one per record.
  if (hasUnknownKeyword(root)) return null
  const compilation = new Compilation(root, check)
  const rule = compilation.value(root)
  const bytes = compilation.table.bytes()
  return bytes === null ? null : { bytes, root: rule, checks: compilation.checks }
}

const notes = new Set([
  ...['title', 'description', 'default', 'examples', 'deprecated', '$schema', '$id', '$comment', '$defs'],
])
const unknownKeywords = new Set(['$ref', 'anyOf', 'oneOf', 'allOf', 'not'])
const formats = new Map([
  ['date-time', 1],
  ['date', 2],
  ['uuid', 3],
])
/** The scanner compares these one after the other. */
const comparedNumbers = 16

class Compilation {
  readonly table = new TableWriter()
  readonly checks: Check[] = []
  readonly #root: SchemaNode
  readonly #check: (schema: Subschema) => Check
  readonly #definitions = new Map<string, Rule>()

  constructor(root: SchemaNode, check: (schema: Subschema) => Check) {
    this.#root = root
    this.#check = check
  }

  value(schema: Subschema): Rule {
    if (schema === true) return anything
    if (schema === false) return nothing
    const keywords = keywordsOf(schema)
    if (keywords.length === 0) return anything
    if (keywords.length === 1 && schema.$ref !== undefined) return this.#definition(schema.$ref)
    const alternatives = this.#alternatives(schema)
    return alternatives === null ? this.#checked(schema) : this.#byTypeOf(alternatives)
  }

  /**
   * Schemas of which a value must match the one for its type: an optional value often is `anyOf` its schema and null.
   * Null: the schema is not like that.
   */
  #alternatives(schema: SchemaNode): readonly SchemaNode[] | null {
    if (!hasUnknownKeyword(schema)) return [schema]
    const all = keywordsOf(schema).length === 1 ? (schema.anyOf ?? schema.oneOf) : undefined
    const nodes = all?.map((one) => this.#referenced(one)).filter((one) => typeof one !== 'boolean') ?? []
    const types = nodes
      .flatMap(({ type }) => type ?? [])
      .map((type) => (type === 'integer' ? 'number' : type))
    const isByType = nodes.every((one) => one.type !== undefined && !hasUnknownKeyword(one))
    const isDistinct = new Set(types).size === types.length
    return all !== undefined && nodes.length === all.length && isByType && isDistinct ? nodes : null
  }

  #referenced(schema: Subschema): Subschema {
    if (typeof schema === 'boolean' || schema.$ref === undefined || keywordsOf(schema).length > 1)
      return schema
    return this.#referenced(this.#root.$defs?.[definitionName(schema.$ref) ?? ''] ?? true)
  }

  #byTypeOf(alternatives: readonly SchemaNode[]): Rule {
    const words = [0, nothing, nothing, nothing, nothing]
    for (const schema of alternatives)
      for (const [index, word] of this.#byType(schema).entries()) words[index] = words[index]! + word
    const [literals, ...rules] = words
    if (literals === 7 && rules.every((rule) => rule === anything)) return anything
    return this.table.words(words)
  }

  #definition(ref: string): Rule {
    const known = this.#definitions.get(ref)
    if (known !== undefined) return known
    const rule = this.value(this.#root.$defs?.[definitionName(ref) ?? ''] ?? true)
    this.#definitions.set(ref, rule)
    return rule
  }

  #checked(schema: SchemaNode): Rule {
    return 4 * (this.checks.push(this.#check(schema)) - 1) + 2
  }

  /** The words of a value. Those of a type that the schema does not have are 0. */
  #byType(schema: SchemaNode): number[] {
    const hasType = typesOf(schema)
    const values = enumOf(schema)
    const containers = values === null ? null : this.#checked(schema)
    const literals = literalBits(hasType, values)
    const isNumber = hasType('number')
    return [
      literals,
      hasType('string') ? this.#string(schema, values) : nothing,
      isNumber || hasType('integer') ? this.#number(schema, values, !isNumber) : nothing,
      hasType('object') ? (containers ?? this.#object(schema)) : nothing,
      hasType('array') ? (containers ?? this.#array(schema)) : nothing,
    ]
  }

  #string(schema: SchemaNode, values: readonly unknown[] | null): Rule {
    const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, format, pattern } = schema
    const formatNumber = format === undefined ? 0 : formats.get(format)
    if (pattern !== undefined || formatNumber === undefined) return this.#checked(schema)
    if (values === null && format === undefined && minLength === 0 && schema.maxLength === undefined)
      return anything
    const texts = values?.filter((value) => typeof value === 'string') ?? null
    const set = texts === null ? 0 : writeSet(this.table, this.#entries(texts))
    if (set === null) return this.#checked(schema)
    return this.table.words([minLength, maxLength, formatNumber, set, this.#checked(schema)])
  }

  #entries(texts: readonly string[]): (readonly [Buffer, number])[] {
    return texts.filter(isEncodable).map((text) => {
      const bytes = Buffer.from(text)
      return [bytes, this.table.words([bytes.length, this.table.text(bytes)])]
    })
  }

  #number(schema: SchemaNode, values: readonly unknown[] | null, isWhole: boolean): Rule {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf = 0 } = schema
    const limits = [minimum, maximum, exclusiveMinimum, exclusiveMaximum]
    const allowed = values?.filter((value) => typeof value === 'number') ?? []
    if (values !== null && allowed.length === 0) return nothing
    if (!Number.isSafeInteger(multipleOf) || allowed.length > comparedNumbers) return this.#checked(schema)
    const isBounded = limits.some((limit) => limit !== undefined)
    if (values === null && !isBounded && multipleOf === 0 && !isWhole) return anything
    const infinity = Number.POSITIVE_INFINITY
    return this.table.words(
      [isWhole ? 1 : 0, this.#checked(schema), allowed.length],
      [
        ...[minimum ?? -infinity, maximum ?? infinity, exclusiveMinimum ?? -infinity],
        ...[exclusiveMaximum ?? infinity, multipleOf, ...allowed],
      ],
    )
  }

  #array(schema: SchemaNode): Rule {
    const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, uniqueItems = false } = schema
    if (uniqueItems) return this.#checked(schema)
    const first = (schema.prefixItems ?? []).map((one) => this.value(one))
    const others = this.value(schema.items ?? true)
    const acceptsAll = [others, ...first].every((rule) => rule === anything)
    if (acceptsAll && minItems === 0 && schema.maxItems === undefined) return anything
    return this.table.words([minItems, maxItems, first.length, others, ...first])
  }

  #object(schema: SchemaNode): Rule {
    const { properties = {}, required = [], additionalProperties = true } = schema
    const { minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema
    // Repeated keys count once, so a number of keys says little.
    if (minProperties > 1) return this.#checked(schema)
    const names = [...new Set([...Object.keys(properties), ...required])]
    const isOpen = additionalProperties === true && schema.maxProperties === undefined
    if (isOpen && names.length === 0 && minProperties === 0) return anything
    const others = this.value(additionalProperties)
    const entries = names.filter(isEncodable).map((name): readonly [Buffer, number] => {
      const value = Object.hasOwn(properties, name) ? this.value(properties[name]!) : others
      const key = Buffer.from(name)
      const words = [key.length, this.table.text(key), value, required.includes(name) ? 1 : 0, 0, 0]
      return [key, this.table.words(words)]
    })
    const set = writeSet(this.table, entries)
    if (set === null) return this.#checked(schema)
    this.#predictOrder(entries.map(([, entry]) => entry))
    const first = entries[0]?.[1] ?? 0
    return this.table.words([set, first, required.length, others, maxProperties, minProperties, 0])
  }

  /** Each member is first expected where the schema has it. */
  #predictOrder(entries: readonly number[]): void {
    for (const [index, entry] of entries.entries()) this.table.setWord(entry + 20, entries[index + 1] ?? 0)
  }
}

function keywordsOf(schema: SchemaNode): string[] {
  return Object.keys(schema).filter((keyword) => !notes.has(keyword))
}

function hasUnknownKeyword(schema: SchemaNode): boolean {
  return Object.keys(schema).some((keyword) => unknownKeywords.has(keyword))
}

function typesOf({ type }: SchemaNode): (wanted: SchemaType) => boolean {
  if (type === undefined) return () => true
  const types = new Set<SchemaType>(typeof type === 'string' ? [type] : type)
  return (wanted) => types.has(wanted)
}

/** 1 for true, 2 for false and 4 for null. */
function literalBits(hasType: (type: SchemaType) => boolean, values: readonly unknown[] | null): number {
  const literals: [SchemaType, unknown, number][] = [
    ['boolean', true, 1],
    ['boolean', false, 2],
    ['null', null, 4],
  ]
  const allowed = literals.filter(([type, value]) => hasType(type) && (values?.includes(value) ?? true))
  return allowed.reduce((sum, [, , bit]) => sum + bit, 0)
}

/** The values of `enum` and `const`. Null: any. */
function enumOf(schema: SchemaNode): readonly unknown[] | null {
  if (!('const' in schema)) return schema.enum ?? null
  // Both: the check decides.
  return schema.enum === undefined ? [schema.const] : []
}

/** A lone surrogate is always escaped in a record, and the scanner leaves texts with escapes to the check. */
function isEncodable(text: string): boolean {
  return text.isWellFormed()
}
