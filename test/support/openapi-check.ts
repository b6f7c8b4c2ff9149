/**
 * Compares real responses with the OpenAPI document that the daemon itself serves: status, body shape, and no key that
 * the document does not name. Covers the schema keywords that the document uses.
 */

type Schema = Record<string, unknown>
interface ResponseObject {
  content?: Record<string, { schema: Schema }>
}
interface Document {
  paths: Record<string, Record<string, { responses?: Record<string, Schema> }>>
  components: { schemas: Record<string, Schema>; responses: Record<string, ResponseObject> }
}

export interface SeenResponse {
  method: string
  /** Without its query. */
  path: string
  status: number
  /** Parsed; undefined when it is not JSON. */
  body: unknown
  text: string
}

/** Errors about a request's path, method or framing, which any path may give and no operation lists. */
const unlistedErrors = [
  'not_found',
  'method_not_allowed',
  'bad_request',
  'headers_too_large',
  'payload_too_large',
  'server_error',
]

export class OpenApiCheck {
  readonly #document: Document

  constructor(document: unknown) {
    this.#document = document as Document
  }

  /** One sentence for each difference; none when the document describes the response. */
  problems(seen: SeenResponse): string[] {
    const { status, body } = seen
    const response = this.#responseOf(seen)
    if (response === undefined) {
      // The body that would name the code is what HEAD leaves out.
      if (seen.method === 'HEAD' && seen.text === '' && [404, 405].includes(status)) return []
      const code = typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined
      if (!unlistedErrors.includes(String(code))) return [`status ${status} is not documented`]
      return this.#fit({ $ref: '#/components/schemas/Error' }, body, '')
    }
    const [[type, media] = []] = Object.entries(response.content ?? {})
    const isBodyless = seen.method === 'HEAD' || (seen.method === 'OPTIONS' && seen.text === '')
    if (media === undefined || isBodyless) return seen.text === '' ? [] : ['a body, where none is documented']
    return type === 'application/json' ? this.#fit(media.schema, body, '') : []
  }

  #responseOf({ method, path, status }: SeenResponse): ResponseObject | undefined {
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase()
    const item = this.#document.paths[this.#templateOf(path, verb) ?? '']
    const response = item?.[verb]?.responses?.[status]
    return response === undefined ? undefined : this.#resolve(response)
  }

  /** The template with the method and the fewest parameters: a literal segment wins over a parameter. */
  #templateOf(path: string, verb: string): string | undefined {
    const segments = path.split('/')
    const fits = (template: string) => {
      const parts = template.split('/')
      return (
        parts.length === segments.length &&
        parts.every((part, index) => part.startsWith('{') || part === segments[index])
      )
    }
    const count = (template: string) => template.split('{').length
    return Object.keys(this.#document.paths)
      .filter((template) => fits(template) && this.#document.paths[template]?.[verb] !== undefined)
      .sort((a, b) => count(a) - count(b))[0]
  }

  #resolve(schema: Schema): Schema {
    if (typeof schema.$ref !== 'string') return schema
    const [, , kind, name] = schema.$ref.split('/')
    const found = this.#document.components[kind === 'responses' ? 'responses' : 'schemas'][name ?? '']
    if (found === undefined) throw new Error(`the document has no ${schema.$ref}`)
    return this.#resolve(found as Schema)
  }

  /** References followed and `allOf` merged, so that the keys of all parts are known together. */
  #flat(given: Schema): Schema {
    const schema = this.#resolve(given)
    if (!Array.isArray(schema.allOf)) return schema
    const merged: Schema = { properties: {}, required: [] }
    for (const part of schema.allOf.map((one) => this.#flat(one))) {
      const { properties, required, ...rest } = part
      Object.assign(merged, rest)
      merged.properties = { ...Object(merged.properties), ...Object(properties) }
      merged.required = [...list(merged.required), ...list(required)]
    }
    return merged
  }

  #fit(given: Schema, value: unknown, at: string): string[] {
    const schema = this.#flat(given)
    const where = at === '' ? 'the body' : at
    for (const branches of [schema.anyOf, schema.oneOf]) {
      if (!Array.isArray(branches)) continue
      const each = branches.map((branch) => this.#fit(branch, value, at))
      return each.reduce((best, one) => (one.length < best.length ? one : best))
    }
    if (value === null) return schema.nullable === true || isAnything(schema) ? [] : [`${where} is null`]
    if (schema.type !== undefined && !isOfType(schema.type, value))
      return [`${where} is not of type ${schema.type}`]
    if (Array.isArray(schema.enum) && !schema.enum.includes(value))
      return [`${where} is ${JSON.stringify(value)}, not one of ${schema.enum}`]
    if (typeof value === 'number') return boundsOf(schema, value, where)
    if (typeof value === 'string') return formatOf(schema, value, where)
    if (Array.isArray(value))
      return value.flatMap((item, index) => this.#fit(Object(schema.items), item, `${at}[${index}]`))
    return typeof value === 'object' ? this.#fitObject(schema, value, at) : []
  }

  #fitObject(schema: Schema, value: object, at: string): string[] {
    const properties: Record<string, Schema> = Object(schema.properties)
    const inner = (key: string) => (at === '' ? key : `${at}.${key}`)
    const problems = list(schema.required)
      .filter((key) => !(String(key) in value))
      .map((key) => `${inner(String(key))} is missing`)
    for (const [key, item] of Object.entries(value)) {
      const property = properties[key]
      if (property !== undefined) problems.push(...this.#fit(property, item, inner(key)))
      else if (typeof schema.additionalProperties === 'object' && schema.additionalProperties !== null)
        problems.push(...this.#fit(schema.additionalProperties as Schema, item, inner(key)))
      else if (schema.additionalProperties !== true && schema.properties !== undefined)
        problems.push(`${inner(key)} is not documented`)
    }
    return problems
  }
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function isAnything(schema: Schema): boolean {
  return schema.type === undefined && schema.properties === undefined && schema.enum === undefined
}

function isOfType(type: unknown, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return typeof value === 'object' && !Array.isArray(value)
  return typeof value === type
}

function boundsOf(schema: Schema, value: number, where: string): string[] {
  const isOutside =
    (typeof schema.minimum === 'number' && value < schema.minimum) ||
    (typeof schema.maximum === 'number' && value > schema.maximum)
  return isOutside ? [`${where} is ${value}, out of its bounds`] : []
}

const formats: Record<string, RegExp> = {
  uuid: /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/,
  'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/,
}

function formatOf(schema: Schema, value: string, where: string): string[] {
  const pattern = formats[String(schema.format)] ?? new RegExp(String(schema.pattern ?? ''))
  const fits =
    pattern.test(value) &&
    value.length >= Number(schema.minLength ?? 0) &&
    value.length <= Number(schema.maxLength ?? Number.POSITIVE_INFINITY)
  return fits ? [] : [`${where} is ${JSON.stringify(value)}, not as its format says`]
}
