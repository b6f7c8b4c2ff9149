/**
 * A TypeBox schema as OpenAPI 3.0.3 writes it. That version has no `const`, no `type: null` and no `patternProperties`:
 * they become a one-value `enum`, `nullable` and `additionalProperties`. A schema that has a name becomes a `$ref`.
 */
export type SchemaObject = Record<string, unknown>

/** `names` gives the components: a schema found there by identity is referred to, not repeated. */
export function openapiSchema(schema: object, names: ReadonlyMap<object, string>): SchemaObject {
  const name = names.get(schema)
  return name === undefined ? openapiDefinition(schema, names) : { $ref: `#/components/schemas/${name}` }
}

/** The schema itself, also when it has a name: for the components section. */
export function openapiDefinition(schema: object, names: ReadonlyMap<object, string>): SchemaObject {
  const inner = (value: unknown): SchemaObject => openapiSchema(asObject(value), names)
  const result: SchemaObject = {}
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'refusals') continue
    if (key === 'anyOf') Object.assign(result, union(asList(value), names))
    else if (key === 'const') result.enum = [value]
    else if (key === 'enum') Object.assign(result, enumeration(asList(value), result))
    else if (key === 'items') result.items = inner(value)
    else if (key === 'properties')
      result.properties = Object.fromEntries(
        Object.entries(asObject(value)).map(([field, property]) => [field, inner(property)]),
      )
    else if (key === 'patternProperties')
      result.additionalProperties = inner(Object.values(asObject(value))[0])
    else if (key === 'additionalProperties')
      result.additionalProperties = typeof value === 'boolean' ? value : inner(value)
    else result[key] = value
  }
  return result
}

/** `T | null` is a nullable T, written out because a $ref takes no siblings; other unions are `anyOf`. */
function union(branches: unknown[], names: ReadonlyMap<object, string>): SchemaObject {
  const solid = branches.map(asObject).filter((branch) => Reflect.get(branch, 'type') !== 'null')
  const isNullable = solid.length < branches.length
  const [only] = solid
  if (only === undefined || solid.length > 1)
    return { anyOf: solid.map((branch) => openapiSchema(branch, names)) }
  if (!isNullable) return openapiSchema(only, names)
  const written = openapiDefinition(only, names)
  // An enum of a nullable value has to list null.
  const values = Array.isArray(written.enum) ? { enum: [...written.enum, null] } : {}
  return { ...written, ...values, nullable: true }
}

function enumeration(values: unknown[], written: SchemaObject): SchemaObject {
  const type = typeof values[0]
  return { ...('type' in written ? {} : { type }), enum: values }
}

/** The very object, not a copy: names go by identity. */
function asObject(value: unknown): object {
  if (typeof value === 'object' && value !== null) return value
  throw new TypeError('a schema must be an object')
}
function asList(value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  throw new TypeError('the schema keyword takes a list')
}
