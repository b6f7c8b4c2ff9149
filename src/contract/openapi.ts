/**
 * Generates the OpenAPI 3.0.3 document (docs/dev/contract.md#versioning) from the route table, the schemas and the
 * error catalogue that serve the requests. `openapi/management-v1.openapi.yaml` is the output; a test compares the
 * two.
 */
import type { TSchema } from 'typebox'
import { stringify } from 'yaml'
import { AlertsPut } from './alerts.ts'
import { ApiKey, ApiKeyCreate, ApiKeyRotate } from './api-key.ts'
import { AuditEntry } from './audit.ts'
import {
  ColumnMapping,
  configSchema,
  Destination,
  type DestinationType,
  destinationTypes,
  LaneStatus,
  StoredColumn,
} from './destination.ts'
import {
  DestinationCreate,
  DestinationUpdate,
  destinationCreateSchema,
  StoredDestinationTest,
} from './destination-requests.ts'
import { wordsOf } from './destination-words.ts'
import { errorSchema, responses, sharedHeaders, sharedResponses } from './openapi-responses.ts'
import { openapiDefinition, openapiSchema, type SchemaObject } from './openapi-schema.ts'
import { ifMatch, type Operation, scopeOf, takesIfMatch } from './operation.ts'
import { operationTable } from './operations.ts'
import { Overview, OverviewLane, OverviewPipe } from './overview.ts'
import { ParkedDetail, ParkedRecord } from './parked.ts'
import { AllowedOrigin, Pipe, PipeCreate, PipeLimits, PipePatch, PipeUsage, pipeDefaults } from './pipe.ts'
import { givenSources, SourceSecret, shownSources } from './pipe-source.ts'
import { Replay } from './replays.ts'
import { responseBodies, StoredLimits } from './responses.ts'
import { SetupLink, User, UserCreate, UserUpdate } from './user.ts'

/** The base URLs of both APIs: the defaults of the document's server variables. */
export interface ServerUrls {
  management: string
  data: string
}
const localUrls: ServerUrls = { management: 'http://127.0.0.1:8080', data: 'http://127.0.0.1:8080' }

/** The document as YAML text, for serving and for the committed file. */
export function openapiYaml(urls = localUrls): string {
  return stringify(openapiDocument(urls), { lineWidth: 110, aliasDuplicateObjects: false })
}

export function openapiDocument(urls = localUrls): Record<string, unknown> {
  return {
    openapi: '3.0.3',
    info: {
      title: 'pipectl: pipe ingestion and management',
      version: '1.0.0',
      'x-beta': true,
      description:
        'Beta. JSON records are accepted into pipes, buffered durably and delivered in order to destinations. Compare this document with your copy when you upgrade.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [server('base_url', 'Management API', urls.management)],
    security: [{ apiKey: [] }],
    tags: Object.entries(areas).map(([name, { description }]) => ({ name, description })),
    paths: paths(urls),
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
      responses: sharedResponses(),
      headers: sharedHeaders,
    },
  }
}

const areas: Record<Operation['area'], { description: string; onDataUrl: boolean }> = {
  tail: { description: 'Records as they are stored.', onDataUrl: false },
  management: {
    description: 'Pipes, destinations, limits, origins and API keys of a workspace',
    onDataUrl: false,
  },
  health: { description: 'Whether the service is up', onDataUrl: false },
  ingest: { description: 'Records into pipes', onDataUrl: true },
  hooks: { description: 'Webhooks of providers into pipes', onDataUrl: true },
  pull: { description: 'Messages out of pull destinations', onDataUrl: true },
}

/** The schemas in `components`, each with its public name. */
const names = new Map<object, string>([
  ...givenSources.map(([type, schema]) => [schema, `${pascalCase(type)}Source`] satisfies [object, string]),
  ...shownSources.map(
    ([type, schema]) => [schema, `Stored${pascalCase(type)}Source`] satisfies [object, string],
  ),
  [SourceSecret, 'SourceSecret'],
  [Pipe, 'Pipe'],
  [PipeCreate, 'PipeCreate'],
  [PipePatch, 'PipeUpdate'],
  [PipeUsage, 'PipeUsage'],
  [PipeLimits, 'PipeLimits'],
  [StoredLimits, 'StoredPipeLimits'],
  [AllowedOrigin, 'AllowedOrigin'],
  [ApiKey, 'ApiKey'],
  [AuditEntry, 'AuditEntry'],
  [AlertsPut, 'AlertsPut'],
  [ApiKeyCreate, 'ApiKeyCreate'],
  [ApiKeyRotate, 'ApiKeyRotate'],
  [Overview, 'Overview'],
  [OverviewPipe, 'OverviewPipe'],
  [OverviewLane, 'OverviewLane'],
  [ParkedRecord, 'ParkedRecord'],
  [ParkedDetail, 'ParkedDetail'],
  [Replay, 'Replay'],
  [User, 'User'],
  [UserCreate, 'UserCreate'],
  [UserUpdate, 'UserUpdate'],
  [SetupLink, 'SetupLink'],
  [ColumnMapping, 'ColumnMapping'],
  [StoredColumn, 'StoredColumnMapping'],
  [LaneStatus, 'Lane'],
  [Destination, 'Destination'],
  [DestinationUpdate, 'DestinationUpdate'],
  [StoredDestinationTest, 'StoredDestinationTest'],
  ...destinationTypes.flatMap(namesOfType),
  [responseBodies.pipeDetail, 'PipeDetail'],
])

function paths(urls: ServerUrls): Record<string, Record<string, unknown>> {
  const result: Record<string, Record<string, unknown>> = {}
  for (const operation of operationTable) {
    const item = result[operation.path] ?? pathItem(operation, urls)
    item[operation.method.toLowerCase()] = operationObject(operation)
    result[operation.path] = item
  }
  return result
}

function pathItem({ path, area }: Operation, urls: ServerUrls): Record<string, unknown> {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: name === 'token' ? { type: 'string' } : { type: 'string', format: 'uuid' },
  }))
  return {
    ...(areas[area].onDataUrl ? { servers: [server('data_url', 'Ingest and pull', urls.data)] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
  }
}

function operationObject(operation: Operation): Record<string, unknown> {
  const { operationId, area, summary, description, auth, request } = operation
  const parameters = [...(operation.parameters ?? []), ...(takesIfMatch(operation) ? [ifMatch] : [])]
  return {
    operationId,
    tags: [area],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(scopeOf(operation) === null ? {} : { 'x-required-scope': scopeOf(operation) }),
    ...(auth === 'none' ? { security: [] } : {}),
    // The empty requirement next to the key means that the pipe decides whether a key is required.
    ...(auth === 'pipe' ? { security: [{ apiKey: [] }, {}] } : {}),
    ...(parameters.length > 0 ? { parameters: parameters.map(parameterObject) } : {}),
    ...(request ? { requestBody: requestBody(operation, request) } : {}),
    responses: responses(operation, names),
  }
}

function parameterObject(parameter: NonNullable<Operation['parameters']>[number]): Record<string, unknown> {
  const { schema, ...rest } = parameter
  return { ...rest, schema: openapiSchema(schema, names) }
}

/** A config that is optional in a request is written inline and not referenced. */
function namesOfType(type: DestinationType): [object, string][] {
  const create = destinationCreateSchema(type)
  const name = pascalCase(wordsOf(type).kind)
  const isConfigRequired = create.required.includes('destination_config')
  return [
    [create, `${name}DestinationCreate`],
    ...(isConfigRequired ? [[configSchema(type), `${name}Config`] satisfies [object, string]] : []),
  ]
}

/** `object-store`, `object_store` → `ObjectStore`. */
function pascalCase(words: string): string {
  return words.replace(/(?:^|[-_])([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

function requestBody(operation: Operation, request: TSchema): Record<string, unknown> {
  const schema = request === DestinationCreate ? byDestinationType() : openapiSchema(request, names)
  const content: Record<string, unknown> = { 'application/json': { schema } }
  for (const type of operation.requestContentTypes ?? []) content[type] = { schema: { type: 'string' } }
  return { required: operation.isBodyOptional !== true, content }
}

/** A discriminated union: `destination_type` selects the body. */
function byDestinationType(): SchemaObject {
  const refs = destinationTypes.map(
    (type) => [type, `#/components/schemas/${names.get(destinationCreateSchema(type))}`] as const,
  )
  return {
    oneOf: refs.map(([, $ref]) => ({ $ref })),
    discriminator: { propertyName: 'destination_type', mapping: Object.fromEntries(refs) },
  }
}

/** Adds to each property of an object schema its default value. */
function withDefaults(schema: SchemaObject, defaults: Readonly<Record<string, unknown>>): SchemaObject {
  const properties = Object.entries(Object(schema.properties)).map(([name, property]) => [
    name,
    Object.hasOwn(defaults, name) ? { ...Object(property), default: defaults[name] } : property,
  ])
  return { ...schema, properties: Object.fromEntries(properties) }
}

function server(variable: string, description: string, url: string): Record<string, unknown> {
  return {
    url: `{${variable}}`,
    description,
    variables: { [variable]: { default: url } },
  }
}
