/** The rules of a schema as a list of paths, for people. Pure. */
import { isObject } from '../../contract/is-object.ts'

export interface SchemaRow {
  /** `customer.address`, `items[].sku`, `stock.*`. */
  path: string
  type: string
  isRequired: boolean
  /** The other rules. Empty: none. */
  rules: string
}

/** A list of several hundred paths is no longer read. */
const shownRows = 500
const shownValueCharacters = 60

export function schemaRows(schema: object): SchemaRow[] {
  const rows: SchemaRow[] = []
  addMembers(schema as Node, '', rows)
  const definitions = (schema as Node).$defs
  if (isObject(definitions))
    for (const [name, definition] of Object.entries(definitions))
      addRow(definition, { path: `#/$defs/${name}`, isRequired: false }, rows)
  return rows.slice(0, shownRows)
}

type Node = Record<string, unknown>

function addMembers(schema: Node, path: string, rows: SchemaRow[]): void {
  const { properties, required, additionalProperties, items, prefixItems } = schema
  const names = Array.isArray(required) ? required.map(String) : []
  const at = (key: string) => (path === '' ? key : `${path}.${key}`)
  const described = isObject(properties) ? properties : {}
  for (const [key, value] of Object.entries(described))
    addRow(value, { path: at(key), isRequired: names.includes(key) }, rows)
  for (const key of names)
    if (!Object.hasOwn(described, key)) addRow(true, { path: at(key), isRequired: true }, rows)
  if (isObject(additionalProperties)) addRow(additionalProperties, { path: at('*'), isRequired: false }, rows)
  if (Array.isArray(prefixItems))
    for (const [index, one] of prefixItems.entries())
      addRow(one, { path: `${path}[${index}]`, isRequired: false }, rows)
  if (isObject(items)) addRow(items, { path: `${path}[]`, isRequired: false }, rows)
}

function addRow(
  schema: unknown,
  { path, isRequired }: Pick<SchemaRow, 'path' | 'isRequired'>,
  rows: SchemaRow[],
): void {
  if (rows.length > shownRows) return
  if (!isObject(schema)) {
    rows.push({ path, type: schema === false ? 'never' : 'any', isRequired, rules: '' })
    return
  }
  rows.push({ path, type: typeOf(schema), isRequired, rules: rulesOf(schema) })
  addMembers(schema, path, rows)
}

function typeOf({ type, $ref }: Node): string {
  if (typeof $ref === 'string') return $ref
  if (type === undefined) return 'any'
  return Array.isArray(type) ? type.join(', ') : String(type)
}

/** Keywords with rows of their own, and notes. */
const notRules = new Set([
  ...['type', 'properties', 'required', 'items', 'prefixItems', '$ref', '$defs'],
  ...['$schema', '$id', '$comment', 'title', 'description', 'default', 'examples', 'deprecated'],
])

function rulesOf(schema: Node): string {
  return Object.entries(schema)
    .filter(([keyword]) => !notRules.has(keyword))
    .flatMap(([keyword, value]) => rule(keyword, value))
    .join('; ')
}

function rule(keyword: string, value: unknown): string[] {
  if (keyword === 'additionalProperties') return value === false ? ['no other keys'] : []
  if (keyword === 'enum' && Array.isArray(value)) {
    const texts = value.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
    return [`one of ${shortened(texts.join(', '))}`]
  }
  return [`${keyword} ${shortened(typeof value === 'string' ? value : JSON.stringify(value))}`]
}

function shortened(text: string): string {
  const characters = [...text]
  if (characters.length <= shownValueCharacters) return text
  return `${characters.slice(0, shownValueCharacters - 1).join('')}…`
}
