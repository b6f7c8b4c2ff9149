/**
 * Converts a TypeBox schema to OpenAPI 3.0.3, which has no `const`, no `type: null` and no `patternProperties`. They
 * become a one-value `enum`, `nullable` and `additionalProperties`. A schema with a name becomes a `$ref`.
 */
export type SchemaObject = Record<string, unknown>

/** `names` maps schemas to component names, by identity. A named schema is referenced and not repeated. */
export function openapiSchema(schema: object, names: Names): SchemaObject {
  const name = names.get(schema)
  return name === undefined ? openapiDefinition(schema, names) : { $ref: `#/components/schemas/${name}` }
}

/** Writes the schema itself even if it has a name. Used for the components section. */
export function openapiDefinition(schema: object, names: Names): SchemaObject {
  const result: SchemaObject = {}
  for (const [key, value] of Object.entries(schema)) {
    const translate = Object.hasOwn(keywords, key) ? keywords[key] : undefined
    Object.assign(result, translate === undefined ? { [key]: value } : translate(value, names, result))
  }
  return result
}

type Names = ReadonlyMap<object, string>

/** Keywords that OpenAPI writes differently or that contain schemas. `written` holds the keywords written so far. */
const keywords: Record<string, (value: unknown, names: Names, written: SchemaObject) => SchemaObject> = {
  refusals: () => ({}),
  anyOf: (value, names) => union(asList(value), names),
  const: (value) => ({ enum: [value] }),
  enum: (value, _, written) => enumeration(asList(value), written),
  items: (value, names) => ({ items: openapiSchema(asObject(value), names) }),
  properties: (value, names) => {
    const fields = Object.entries(asObject(value))
    const written = fields.map(([field, property]) => [field, openapiSchema(asObject(property), names)])
    return { properties: Object.fromEntries(written) }
  },
  patternProperties: (value, names) => ({
    additionalProperties: openapiSchema(asObject(Object.values(asObject(value))[0]), names),
  }),
  additionalProperties: (value, names) => ({
    additionalProperties: typeof value === 'boolean' ? value : openapiSchema(asObject(value), names),
  }),
}

/** `T | null` becomes a nullable T, written inline because a $ref allows no siblings. Other unions become `anyOf`. */
function union(branches: unknown[], names: Names): SchemaObject {
  const solid = branches.map(asObject).filter((branch) => Reflect.get(branch, 'type') !== 'null')
  const isNullable = solid.length < branches.length
  const [only] = solid
  if (only === undefined || solid.length > 1) {
    const written = solid.map((branch) => openapiSchema(branch, names))
    return { anyOf: isNullable ? [...written, onlyNull] : written }
  }
  if (!isNullable) return openapiSchema(only, names)
  const written = openapiDefinition(only, names)
  // The enum of a nullable value must include null.
  const values = Array.isArray(written.enum) ? { enum: [...written.enum, null] } : {}
  return { ...written, ...values, nullable: true }
}

/** `nullable` has an effect only next to a type. */
const onlyNull: SchemaObject = { type: 'object', nullable: true, enum: [null] }

function enumeration(values: unknown[], written: SchemaObject): SchemaObject {
  const type = typeof values[0]
  return { ...('type' in written ? {} : { type }), enum: values }
}

/** Returns the same object, not a copy, because names are found by identity. */
function asObject(value: unknown): object {
  if (typeof value === 'object' && value !== null) return value
  throw new TypeError('a schema must be an object')
}
function asList(value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  throw new TypeError('the schema keyword takes a list')
}
