/**
 * TypeScript types of a verified schema. A value that the schema accepts has the type; the rules that types cannot
 * express (lengths, patterns, ranges, `not`) are left out, and formats are named in comments. Pure.
 *
 * Names and texts of a schema come from its author. They appear in the result only as JSON strings, as identifiers of
 * safe characters, and in comments that they cannot end.
 */
import { isObject } from './is-object.ts'

/** `name`: of the pipe; the type of its records is named after it. */
export function typesOfSchema(schema: object, name: string): string {
  const types = new Types(schema)
  const main = types.reserve(`${name} record`)
  const definitions = types.definitions().map(([type, definition]) => types.declaration(type, definition))
  // A record is an object, even if the schema does not say so.
  return [types.declaration(main, { type: 'object', ...schema }), ...definitions].join('\n')
}

class Types {
  readonly #names = new Set<string>()
  readonly #typeNames = new Map<string, string>()
  readonly #definitions: Record<string, unknown>

  constructor(schema: object) {
    const definitions = Reflect.get(schema, '$defs')
    this.#definitions = isObject(definitions) ? definitions : {}
  }

  /** Returns an identifier that no other type of this text has. */
  reserve(text: string): string {
    const words = text.match(/[A-Za-z0-9]+/g) ?? []
    const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
    const identifier = (/^[A-Za-z]/.test(joined) ? joined : `Pipe${joined}`).slice(0, nameCharacters)
    let name = reserved.has(identifier) ? `${identifier}Type` : identifier
    for (let number = 2; this.#names.has(name); number += 1) name = `${identifier}_${number}`
    this.#names.add(name)
    return name
  }

  definitions(): [type: string, schema: unknown][] {
    for (const name of Object.keys(this.#definitions)) this.#typeNames.set(name, this.reserve(name))
    return Object.entries(this.#definitions).map(([name, schema]) => [this.#typeNames.get(name)!, schema])
  }

  declaration(name: string, schema: unknown): string {
    return `${comment(schema, '')}export type ${name} = ${this.#type(schema, '')}\n`
  }

  #type(schema: unknown, indent: string): string {
    if (schema === false) return 'never'
    if (!isObject(schema)) return 'unknown'
    const { $ref, anyOf, oneOf, allOf } = schema
    const parts = [this.#ownType(schema, indent)]
    if (typeof $ref === 'string') parts.push(this.#reference($ref))
    for (const list of [anyOf, oneOf])
      if (Array.isArray(list)) parts.push(union(list.map((one) => this.#type(one, indent))))
    if (Array.isArray(allOf)) parts.push(...allOf.map((one) => this.#type(one, indent)))
    return intersection(parts)
  }

  #reference(ref: string): string {
    const text = ref.slice('#/$defs/'.length)
    let name = text
    try {
      name = decodeURIComponent(text)
    } catch {}
    return this.#typeNames.get(name.replaceAll('~1', '/').replaceAll('~0', '~')) ?? 'unknown'
  }

  #ownType(schema: Record<string, unknown>, indent: string): string {
    const { type, enum: values } = schema
    const types = type === undefined ? null : Array.isArray(type) ? type.map(String) : [String(type)]
    const allowed = Object.hasOwn(schema, 'const') ? [schema.const] : Array.isArray(values) ? values : null
    if (allowed !== null) {
      const possible = allowed.filter((value) => types === null || types.some((one) => hasType(value, one)))
      return union(possible.map(literal))
    }
    // Without a type, the rules of objects and arrays concern only values of that type.
    if (types === null) return 'unknown'
    return union(types.map((one) => this.#typeOf(one, schema, indent)))
  }

  #typeOf(type: string, schema: Record<string, unknown>, indent: string): string {
    switch (type) {
      case 'object':
        return this.#object(schema, indent)
      case 'array':
        return this.#array(schema, indent)
      case 'integer':
      case 'number':
        return 'number'
      case 'string':
      case 'boolean':
      case 'null':
        return type
      default:
        return 'unknown'
    }
  }

  #object(schema: Record<string, unknown>, indent: string): string {
    const properties = isObject(schema.properties) ? schema.properties : {}
    const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : [])
    const inner = `${indent}  `
    const members = Object.entries(properties).map(([key, value]) => ({
      text: comment(value, inner),
      key: propertyName(key),
      mark: required.has(key) ? '' : '?',
      type: this.#type(value, inner),
    }))
    for (const key of required)
      if (!Object.hasOwn(properties, key))
        members.push({ text: '', key: propertyName(key), mark: '', type: 'unknown' })
    const lines = members.map(({ text, key, mark, type }) => `${text}${inner}${key}${mark}: ${type}\n`)
    const others = this.#otherKeys(
      schema.additionalProperties,
      members.map(({ type, mark }) => (mark === '' ? type : union([type, 'undefined']))),
      inner,
    )
    if (others !== null) lines.push(`${inner}[key: string]: ${others}\n`)
    return lines.length === 0 ? 'Record<string, never>' : `{\n${lines.join('')}${indent}}`
  }

  /** The type of an index signature must include those of all members. Null: there are no other keys. */
  #otherKeys(additional: unknown, members: readonly string[], indent: string): string | null {
    if (additional === false) return null
    const type = this.#type(additional, indent)
    const distinct = [...new Set([type, ...members])]
    return type === 'unknown' || distinct.length > unionTypes ? 'unknown' : union(distinct)
  }

  #array({ items, prefixItems, minItems }: Record<string, unknown>, indent: string): string {
    const rest = items === undefined ? 'unknown' : this.#type(items, indent)
    if (!Array.isArray(prefixItems)) return rest === 'never' ? '[]' : `Array<${rest}>`
    const least = typeof minItems === 'number' ? minItems : 0
    const first = prefixItems.map((one, at) => `(${this.#type(one, indent)})${at < least ? '' : '?'}`)
    return `[${[...first, ...(rest === 'never' ? [] : [`...Array<${rest}>`])].join(', ')}]`
  }
}

const nameCharacters = 80
/** A longer union of an index signature says nothing. */
const unionTypes = 8
/** Global types that a declaration would hide, as far as the text uses them. */
const reserved = new Set(['Array', 'Record'])

function union(types: readonly string[]): string {
  const distinct = [...new Set(types)].filter((type) => type !== 'never')
  if (distinct.includes('unknown')) return 'unknown'
  if (distinct.length === 0) return 'never'
  return distinct.length === 1 ? distinct[0]! : distinct.map(inUnion).join(' | ')
}

function intersection(types: readonly string[]): string {
  const distinct = [...new Set(types)].filter((type) => type !== 'unknown')
  if (distinct.includes('never')) return 'never'
  if (distinct.length === 0) return 'unknown'
  return distinct.length === 1 ? distinct[0]! : distinct.map((type) => `(${type})`).join(' & ')
}

function inUnion(type: string): string {
  return type.includes(' & ') && !type.startsWith('{') ? `(${type})` : type
}

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

/** JSON is a literal type: strings and numbers, and objects and tuples of them. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (typeof value === 'string') return quoted(value)
  if (!isObject(value)) return JSON.stringify(value)
  return `{ ${Object.entries(value)
    .map(([key, one]) => `${propertyName(key)}: ${literal(one)}`)
    .join('; ')} }`
}

function propertyName(key: string): string {
  return /^[A-Za-z_$][A-Za-z0-9_$]*$/.test(key) ? key : quoted(key)
}

/** Characters that are invisible or change the direction of writing become escapes. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  )
}

/**
 * A comment of several lines even for one: the compiler reads `@ts-expect-error` in the last line of a comment as an order,
 * and this last line is empty.
 */
function comment(schema: unknown, indent: string): string {
  if (!isObject(schema)) return ''
  const { title, description, format, deprecated } = schema
  const texts = [title, description].filter((text) => typeof text === 'string' && text.trim() !== '')
  const lines = texts.flatMap((text) => String(text).split(/[\r\n\u2028\u2029]+/))
  if (typeof format === 'string') lines.push(`Format: ${format}`)
  if (deprecated === true) lines.push('@deprecated')
  if (lines.length === 0) return ''
  const safe = lines.map((line) => `${indent} * ${commentText(line)}`.trimEnd())
  return `${indent}/**\n${safe.join('\n')}\n${indent} */\n`
}

/** Control characters and marks of writing direction would show another text than the compiler reads. */
function commentText(line: string): string {
  return line
    .replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, ' ')
    .replaceAll('*/', '*\\/')
    .trim()
}
