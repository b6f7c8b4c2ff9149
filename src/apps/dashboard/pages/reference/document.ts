/**
 * The service's own OpenAPI document, as far as the page shows it. The known renderers are over a megabyte, or write styles
 * into the page, which its Content-Security-Policy forbids; the document is ours, so its shape is known. Pure.
 */
import { parse } from 'yaml'
import { isObject } from '../../../../contract/is-object.ts'

export interface Schema {
  $ref?: string
  type?: string
  format?: string
  description?: string
  enum?: readonly unknown[]
  default?: unknown
  nullable?: boolean
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  required?: readonly string[]
  properties?: Readonly<Record<string, Schema>>
  additionalProperties?: boolean | Schema
  items?: Schema
  oneOf?: readonly Schema[]
  anyOf?: readonly Schema[]
  allOf?: readonly Schema[]
}

export interface Parameter {
  name: string
  in: string
  required?: boolean
  description?: string
  schema?: Schema
}

interface Body {
  description?: string
  content?: Readonly<Record<string, { schema?: Schema }>>
}

export interface ApiOperation {
  id: string
  method: string
  path: string
  tag: string
  summary: string
  description: string
  isOpen: boolean
  parameters: readonly Parameter[]
  request: Schema | null
  responses: readonly { status: string; description: string; schema: Schema | null }[]
}

export interface ApiDocument {
  title: string
  description: string
  version: string
  tags: readonly { name: string; description: string }[]
  operations: readonly ApiOperation[]
  /** Returns the value that `$ref` names; null if there is none. */
  resolve: (reference: string) => unknown
}

const methods = ['get', 'post', 'put', 'patch', 'delete', 'options']

/** Throws when the text is no YAML. */
export function readDocument(text: string): ApiDocument {
  const raw = object(parse(text))
  const resolve = (reference: string) =>
    reference
      .replace(/^#\//, '')
      .split('/')
      .reduce<unknown>((at, key) => object(at)[key] ?? null, raw)
  const resolved = (value: unknown): Record<string, unknown> => {
    const one = object(value)
    return typeof one.$ref === 'string' ? object(resolve(one.$ref)) : one
  }
  const info = object(raw.info)
  const operations = Object.entries(object(raw.paths)).flatMap(([path, item]) =>
    methods
      .filter((method) => Object.hasOwn(object(item), method))
      .map((method) => operationOf(path, method, object(item), resolved)),
  )
  return {
    title: wordsOf(info.title),
    description: wordsOf(info.description),
    version: wordsOf(info.version),
    tags: list(raw.tags).map((tag) => ({ name: wordsOf(tag.name), description: wordsOf(tag.description) })),
    operations,
    resolve,
  }
}

function operationOf(
  path: string,
  method: string,
  item: Record<string, unknown>,
  resolved: (value: unknown) => Record<string, unknown>,
): ApiOperation {
  const operation = object(item[method])
  const parameters = [...list(item.parameters), ...list(operation.parameters)].map(resolved)
  const responses = Object.entries(object(operation.responses)).map(([status, response]) => {
    const body = resolved(response)
    return { status, description: wordsOf(body.description), schema: schemaOf(body) }
  })
  return {
    id: wordsOf(operation.operationId),
    method: method.toUpperCase(),
    path,
    tag: wordsOf(Array.isArray(operation.tags) ? operation.tags[0] : ''),
    summary: wordsOf(operation.summary),
    description: wordsOf(operation.description),
    isOpen: Array.isArray(operation.security) && operation.security.length === 0,
    parameters: parameters as unknown as Parameter[],
    request: schemaOf(resolved(operation.requestBody)),
    responses,
  }
}

function schemaOf(body: Body): Schema | null {
  return Object.values(body.content ?? {})[0]?.schema ?? null
}

function object(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.map(object) : []
}

function wordsOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** `string (uuid), 1 to 100 characters`. */
export function typeWords(schema: Schema): string {
  const alternatives = schema.oneOf ?? schema.anyOf
  if (schema.$ref !== undefined) return schema.$ref.split('/').at(-1) ?? ''
  if (alternatives !== undefined) return alternatives.map(typeWords).join(' or ')
  if (schema.allOf !== undefined) return schema.allOf.map(typeWords).join(' and ')
  const kind =
    schema.type === 'array' && schema.items !== undefined
      ? `array of ${typeWords(schema.items)}`
      : (schema.type ?? 'anything')
  return [
    schema.format === undefined ? kind : `${kind} (${schema.format})`,
    range(schema.minimum, schema.maximum, ''),
    range(schema.minLength, schema.maxLength, ' characters'),
    range(schema.minItems, schema.maxItems, ' items'),
    schema.enum === undefined ? '' : schema.enum.map((one) => JSON.stringify(one)).join(', '),
    schema.default === undefined ? '' : `default ${JSON.stringify(schema.default)}`,
    schema.nullable === true ? 'or null' : '',
  ]
    .filter(Boolean)
    .join(', ')
}

function range(from: number | undefined, to: number | undefined, unit: string): string {
  const isBounded = to !== undefined && to < Number.MAX_SAFE_INTEGER
  if (from === undefined && !isBounded) return ''
  if (from === undefined) return `at most ${to}${unit}`
  return isBounded ? `${from} to ${to}${unit}` : `at least ${from}${unit}`
}
