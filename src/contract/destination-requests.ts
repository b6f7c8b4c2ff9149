/**
 * Request bodies about destinations. Rules: docs/dev/contract.md#destinations, docs/dev/contract.md#request-bodies.
 */
import Type, { type Static } from 'typebox'
import { Check } from 'typebox/schema'
import { givenConcurrency, givenDeliverySettings, givenOnPermanentError } from './delivery-settings.ts'
import {
  ColumnMapping,
  configSchema,
  type DestinationType,
  defaultMaxRetrySeconds,
  destinationStatus,
  destinationTypes,
} from './destination.ts'
import { isEmptyUnset, typesWith, wordsOf } from './destination-words.ts'
import { isObject } from './is-object.ts'
import { resourceLimits } from './resource-limits.ts'
import { anyObject, closed, string, uuid } from './schema-parts.ts'
import { givenTransform } from './transform.ts'
import type { Refusals } from './validate.ts'

const maxRetrySeconds = (options: Type.TNumberOptions = {}) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, ...options }))
const columns = Type.Optional(Type.Array(ColumnMapping, { minItems: 1, maxItems: 1600 }))
const startFrom = Type.Optional(
  Type.Enum(['now', 'earliest'], {
    default: 'now',
    description: 'Where the new lane begins: at new messages, or at the earliest message that is kept.',
  }),
)
const common = {
  destination_max_retry_seconds: maxRetrySeconds({ default: defaultMaxRetrySeconds }),
  start_from: startFrom,
  ...givenDeliverySettings,
  ...givenOnPermanentError,
  ...givenTransform,
}

/** The schema of POST …/destinations for one type. `destination_type` selects the shape of the other fields. */
export function destinationCreateSchema(type: DestinationType): Type.TObject {
  return createSchemas[type]!
}

const createSchemas = Object.fromEntries(destinationTypes.map((type) => [type, createSchemaOf(type)]))

function createSchemaOf(type: DestinationType): Type.TObject {
  const config = configSchema(type)
  const isConfigRequired = Check(config, {}) === false
  return Type.Object(
    {
      destination_type: Type.Enum([type]),
      destination_config: isConfigRequired ? config : Type.Optional(config),
      ...(wordsOf(type).hasColumns ? { columns } : {}),
      ...(wordsOf(type).hasConcurrency ? givenConcurrency : {}),
      ...common,
    },
    { ...closed, refusals: fieldsOfOtherTypes(type) },
  )
}

/** The error for each field that only destinations of other types have. */
export function fieldsOfOtherTypes(type: DestinationType): Refusals {
  const { hasColumns, hasConcurrency } = wordsOf(type)
  return {
    ...(hasColumns ? {} : { columns: `Only ${typesWith('hasColumns')} have columns.` }),
    ...(hasConcurrency ? {} : { concurrency: `Only ${typesWith('hasConcurrency')} have concurrency.` }),
  }
}

const anyDestination = Type.Object({
  destination_type: Type.Enum([...destinationTypes]),
  destination_config: Type.Optional(anyObject()),
  columns,
  ...common,
  ...givenConcurrency,
})
/** The fields of a create request that all types share. */
export type DestinationCreate = Static<typeof anyDestination>

/** POST …/destinations. `destination_type` selects the schema. */
export const DestinationCreate = Type.Unsafe<DestinationCreate>(Type.Union(Object.values(createSchemas)))

/** Removes config fields that are null and empty optional secrets: both mean "not set" for a new destination. */
export function withGivenConfig(body: Record<string, unknown>): Record<string, unknown> {
  const { destination_type, destination_config: config } = body
  const type = destinationTypes.find((one) => one === destination_type)
  if (type === undefined || !isObject(config)) return body
  const given = Object.entries(config).filter(
    ([key, value]) => value !== null && !(value === '' && isEmptyUnset(type, key)),
  )
  return { ...body, destination_config: Object.fromEntries(given) }
}

/** The config of an update: only the keys that it changes. */
export function changedConfig(description?: string) {
  const limits = { additionalProperties: true, maxProperties: resourceLimits.storedConfigKeys }
  return Type.Unsafe<Record<string, unknown>>(
    Type.Object({}, { ...limits, ...(description && { description }) }),
  )
}

export const fixedType: Refusals = { destination_type: 'destination_type cannot be changed.' }

/** PATCH …/destinations/{destination_id}. The merged config is then checked with the schema of its type. */
export const DestinationUpdate = Type.Object(
  {
    destination_max_retry_seconds: maxRetrySeconds(),
    destination_config: Type.Optional(
      changedConfig(
        'Merged over the stored config, key by key. Sending "" or "[redacted]" for a secret keeps its stored value; null removes an optional key. A change of the server (origin of url or endpoint, host, port) requires all secrets again.',
      ),
    ),
    columns: Type.Optional(
      Type.Array(ColumnMapping, {
        maxItems: 1600,
        description:
          'Databases, and object stores with format parquet: replaces all column mappings. An empty list removes them: keys are then matched with the columns of the table by name; parquet requires columns.',
      }),
    ),
    ...givenDeliverySettings,
    ...givenConcurrency,
    ...givenOnPermanentError,
    ...givenTransform,
  },
  { ...closed, refusals: fixedType },
)
export type DestinationUpdate = Static<typeof DestinationUpdate>

/**
 * POST …/destinations/test for a stored destination, with the changes of a PATCH. A test of a new destination has the
 * body of a create request.
 */
export const StoredDestinationTest = Type.Object(
  { destination_id: uuid(), ...DestinationUpdate.properties },
  { ...closed, refusals: fixedType },
)
type DestinationTest = DestinationCreate | Static<typeof StoredDestinationTest>
export const DestinationTest = Type.Unsafe<DestinationTest>(
  Type.Union([...Object.values(createSchemas), StoredDestinationTest]),
)

/** PATCH …/status: its request and its response. */
export const DestinationStatusBody = Type.Object({ destination_status: destinationStatus }, closed)
export type DestinationStatusBody = Static<typeof DestinationStatusBody>

/** POST …/rewind. */
export const RewindRequest = Type.Object(
  {
    to: Type.Union([
      Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'A stream_seq.' }),
      string('"earliest", or an ISO 8601 time with its offset.'),
    ]),
  },
  closed,
)
export type RewindRequest = Static<typeof RewindRequest>
