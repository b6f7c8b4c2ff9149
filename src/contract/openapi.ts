/**
 * The OpenAPI 3.0.3 description (spec "Versioning", rule 2), emitted from the route table, the schemas and the error
 * catalogue that serve the requests. `openapi/management-v1.openapi.yaml` is its output; a test compares the two.
 */
import type { TSchema } from 'typebox'
import { stringify } from 'yaml'
import { answers, DestinationAnswer, StoredLimits } from './answers.ts'
import { ApiKey, ApiKeyCreate } from './api-key.ts'
import { ColumnMapping, configSchemas, Lane } from './destination.ts'
import { DestinationCreate, DestinationUpdate, destinationCreateSchemas } from './destination-requests.ts'
import { type ErrorCode, errorCatalogue } from './errors.ts'
import { PipeLimits } from './limits.ts'
import { openapiDefinition, openapiSchema, type SchemaObject } from './openapi-schema.ts'
import { type Operation, operationTable } from './operations.ts'
import { AllowedOrigin } from './origin.ts'
import { Pipe, PipeCreate, PipeUpdate, pipeDefaults } from './pipe.ts'
import { PipeUsage } from './usage.ts'

/** The document as YAML text, for serving and for the committed file. */
export function openapiYaml(): string {
  return stringify(openapiDocument(), { lineWidth: 110, aliasDuplicateObjects: false })
}

export function openapiDocument(): Record<string, unknown> {
  return {
    openapi: '3.0.3',
    info: {
      title: 'pipectl: pipe ingestion and management',
      version: '1.0.0',
      'x-beta': true,
      description:
        'Beta. JSON records are accepted into pipes, buffered durably and delivered in order to destinations. Compare this document with the one you know when you upgrade.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [server('base_url', 'Management API')],
    security: [{ apiKey: [] }],
    tags: Object.entries(areas).map(([name, { description }]) => ({ name, description })),
    paths: paths(),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An active API key of the workspace: `Authorization: Bearer <API_KEY>`.',
        },
      },
      schemas: {
        ...Object.fromEntries([...names].map(([schema, name]) => [name, openapiDefinition(schema, names)])),
        PipeCreate: withDefaults(openapiDefinition(PipeCreate, names), pipeDefaults),
        Error: errorSchema,
      },
      responses: Object.fromEntries(
        [...codesAlone()].map((code) => [code, errorResponse(errorCatalogue[code].status, [code])]),
      ),
    },
  }
}

const areas: Record<Operation['area'], { description: string; onDataUrl: boolean }> = {
  management: {
    description: 'Pipes, destinations, limits, origins and API keys of a workspace',
    onDataUrl: false,
  },
  health: { description: 'Whether the service is up', onDataUrl: false },
  ingest: { description: 'Records into pipes', onDataUrl: true },
  pull: { description: 'Messages out of pull destinations', onDataUrl: true },
}

/** Schemas that stand in `components`, each under the name clients see. */
const names = new Map<object, string>([
  [Pipe, 'Pipe'],
  [PipeCreate, 'PipeCreate'],
  [PipeUpdate, 'PipeUpdate'],
  [PipeUsage, 'PipeUsage'],
  [PipeLimits, 'PipeLimits'],
  [StoredLimits, 'StoredPipeLimits'],
  [AllowedOrigin, 'AllowedOrigin'],
  [ApiKey, 'ApiKey'],
  [ApiKeyCreate, 'ApiKeyCreate'],
  [ColumnMapping, 'ColumnMapping'],
  [Lane, 'Lane'],
  [DestinationAnswer, 'Destination'],
  [DestinationUpdate, 'DestinationUpdate'],
  [destinationCreateSchemas.destination_database, 'DatabaseDestinationCreate'],
  [destinationCreateSchemas.destination_object_store, 'ObjectStoreDestinationCreate'],
  [destinationCreateSchemas.destination_http_endpoint, 'HttpEndpointDestinationCreate'],
  [destinationCreateSchemas.destination_pull, 'PullDestinationCreate'],
  [configSchemas.destination_database, 'DatabaseConfig'],
  [configSchemas.destination_object_store, 'ObjectStoreConfig'],
  [configSchemas.destination_http_endpoint, 'HttpEndpointConfig'],
  [answers.pipeDetail, 'PipeDetail'],
])

const errorSchema: SchemaObject = {
  type: 'object',
  required: ['error', 'message'],
  properties: {
    error: { type: 'string', description: 'The machine code.', enum: Object.keys(errorCatalogue) },
    message: { type: 'string', description: 'A sentence for people.' },
  },
}

/** What some codes carry beside `error` and `message`. */
const details: Partial<Record<ErrorCode, Record<string, SchemaObject>>> = {
  validation_error: {
    errors: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'Dot-joined path of each invalid field → a sentence. The empty path is the body itself.',
    },
  },
  missing_required_fields: {
    record_index: { type: 'integer', minimum: 0 },
    fields: { type: 'array', items: { type: 'string' } },
  },
  rate_limit_exceeded: limitDetails(),
  daily_quota_exceeded: limitDetails(),
  buffer_unavailable: { msg_id: { type: 'string', format: 'uuid' } },
  cursor_expired: { earliest_seq: { type: 'integer', minimum: 0 } },
}

function limitDetails(): Record<string, SchemaObject> {
  return {
    limit: { type: 'string' },
    limit_value: { type: 'integer' },
    current: { type: 'integer' },
    retry_after_seconds: { type: 'integer' },
  }
}

function paths(): Record<string, Record<string, unknown>> {
  const result: Record<string, Record<string, unknown>> = {}
  for (const operation of operationTable) {
    const item = result[operation.path] ?? pathItem(operation)
    item[operation.method.toLowerCase()] = operationObject(operation)
    result[operation.path] = item
  }
  return result
}

function pathItem({ path, area }: Operation): Record<string, unknown> {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', format: 'uuid' },
  }))
  return {
    ...(areas[area].onDataUrl ? { servers: [server('data_url', 'Ingest and pull')] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
  }
}

function operationObject(operation: Operation): Record<string, unknown> {
  const { operationId, area, summary, description, auth, parameters, request } = operation
  return {
    operationId,
    tags: [area],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(auth === 'none' ? { security: [] } : {}),
    // An empty requirement beside the key: the pipe says which of the two.
    ...(auth === 'pipe' ? { security: [{ apiKey: [] }, {}] } : {}),
    ...(parameters ? { parameters: parameters.map(parameterObject) } : {}),
    ...(request ? { requestBody: requestBody(operation, request) } : {}),
    responses: responses(operation),
  }
}

function parameterObject(parameter: NonNullable<Operation['parameters']>[number]): Record<string, unknown> {
  const { schema, ...rest } = parameter
  return { ...rest, schema: openapiSchema(schema, names) }
}

function requestBody(operation: Operation, request: TSchema): Record<string, unknown> {
  const schema = request === DestinationCreate ? byDestinationType() : openapiSchema(request, names)
  const content: Record<string, unknown> = { 'application/json': { schema } }
  for (const type of operation.requestContentTypes ?? []) content[type] = { schema: { type: 'string' } }
  return { required: true, content }
}

/** `destination_type` says which of the four bodies it is. */
function byDestinationType(): SchemaObject {
  const refs = Object.entries(destinationCreateSchemas).map(
    ([type, schema]) => [type, `#/components/schemas/${names.get(schema)}`] as const,
  )
  return {
    oneOf: refs.map(([, $ref]) => ({ $ref })),
    discriminator: { propertyName: 'destination_type', mapping: Object.fromEntries(refs) },
  }
}

/** The properties of an object schema with the value each has when it is left out. */
function withDefaults(schema: SchemaObject, defaults: Readonly<Record<string, unknown>>): SchemaObject {
  const properties = Object.entries(Object(schema.properties)).map(([name, property]) => [
    name,
    Object.hasOwn(defaults, name) ? { ...Object(property), default: defaults[name] } : property,
  ])
  return { ...schema, properties: Object.fromEntries(properties) }
}

function responses({ success, alsoAnswers, errors }: Operation): Record<string, unknown> {
  const result: Record<string, unknown> = {
    [success.status]: {
      description: success.description,
      ...(success.schema ? json(openapiSchema(success.schema, names)) : {}),
    },
  }
  for (const [status, description] of Object.entries(alsoAnswers ?? {})) result[status] = { description }
  for (const [status, codes] of byStatus(errors)) {
    const withoutBody = alsoAnswers?.[status]
    if (codes.length === 1 && withoutBody === undefined)
      result[status] = { $ref: `#/components/responses/${codes[0]}` }
    else {
      const response = errorResponse(status, codes)
      const description = [withoutBody, response.description].filter((part) => part !== undefined).join(' ')
      result[status] = { ...response, description }
    }
  }
  return result
}

function byStatus(errors: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const groups = new Map<number, ErrorCode[]>()
  for (const code of errors) {
    const { status } = errorCatalogue[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return groups
}

/** Codes that are the only one of their status somewhere: their response is written once and referred to. */
function codesAlone(): Set<ErrorCode> {
  const alone = new Set<ErrorCode>()
  for (const { errors } of operationTable)
    for (const codes of byStatus(errors).values()) if (codes.length === 1) alone.add(codes[0]!)
  return alone
}

function errorResponse(status: number, codes: readonly ErrorCode[]): Record<string, unknown> {
  const extra: Record<string, SchemaObject> = Object.assign({}, ...codes.map((code) => details[code] ?? {}))
  const schema = {
    allOf: [
      { $ref: '#/components/schemas/Error' },
      { type: 'object', properties: { error: { type: 'string', enum: [...codes] }, ...extra } },
    ],
  }
  const headers = responseHeaders[status]
  return {
    description: codes.map((code) => `${code}: ${errorCatalogue[code].message}`).join(' '),
    ...(headers ? { headers } : {}),
    ...json(schema),
  }
}

const retryAfter = { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } } }
const responseHeaders: Record<number, Record<string, unknown> | undefined> = {
  401: { 'WWW-Authenticate': { description: 'Always `Bearer`.', schema: { type: 'string' } } },
  429: retryAfter,
  503: retryAfter,
}

function json(schema: SchemaObject): Record<string, unknown> {
  return { content: { 'application/json': { schema } } }
}

function server(variable: string, description: string): Record<string, unknown> {
  return {
    url: `{${variable}}`,
    description,
    variables: { [variable]: { default: 'http://127.0.0.1:8080' } },
  }
}
