/**
 * The bodies that clients send about destinations. Rules: docs/dev/contract.md#destinations,
 * docs/dev/contract.md#request-bodies.
 */
import Type, { type Static } from 'typebox'
import { Check } from 'typebox/value'
import { givenConcurrency, givenDeliverySettings, givenOnPermanentError } from './delivery-settings.ts'
import {
  ColumnMapping,
  configSchema,
  type DestinationType,
  defaultMaxRetrySeconds,
  destinationStatus,
  destinationTypes,
} from './destination.ts'
import { wordsOf } from './destination-words.ts'
import { closed } from './destinations/fields.ts'
import { resourceLimits } from './resource-limits.ts'
import { givenTransform } from './transform.ts'

const maxRetrySeconds = (options: Type.TNumberOptions = {}) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, ...options }))
const columns = Type.Optional(Type.Array(ColumnMapping, { minItems: 1, maxItems: 1600 }))
const startFrom = Type.Optional(
  Type.Enum(['now', 'earliest'], {
    default: 'now',
    description:
      'Where the new lane begins: at what comes from now on, or at the earliest message still kept.',
  }),
)
const common = {
  destination_max_retry_seconds: maxRetrySeconds({ default: defaultMaxRetrySeconds }),
  start_from: startFrom,
  ...givenDeliverySettings,
  ...givenOnPermanentError,
  ...givenTransform,
}

/** POST …/destinations, by type: `destination_type` decides the shape of the rest. */
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
    closed,
  )
}

/** The same of any type, for a body that fits its own type's schema. */
export const NewDestinationFields = Type.Object({
  destination_config: Type.Optional(
    Type.Object({}, { additionalProperties: true, maxProperties: resourceLimits.storedConfigKeys }),
  ),
  columns,
  ...common,
  ...givenConcurrency,
})

/** The body of a create as one schema, for the description; validation goes by `destination_type` at once. */
export const DestinationCreate = Type.Union(Object.values(createSchemas))

/** Decides which of the schemas above applies. The rest of the body is checked afterwards. */
export const DestinationTypeOnly = Type.Object({ destination_type: Type.Enum([...destinationTypes]) })

/** PATCH …/destinations/{destination_id}. The merged config is checked by the type's own schema afterwards. */
export const DestinationUpdate = Type.Object(
  {
    destination_max_retry_seconds: maxRetrySeconds(),
    destination_config: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          maxProperties: resourceLimits.storedConfigKeys,
          description:
            'Merged over the stored config, key by key. A secret sent as "" or "[redacted]" keeps its stored value; null removes an optional key. A change of the server (origin of url or endpoint, host, port) needs all secrets again.',
        },
      ),
    ),
    columns: Type.Optional(
      Type.Array(ColumnMapping, {
        maxItems: 1600,
        description:
          "Databases, and object stores with format parquet: replaces all column mappings. An empty list removes them: columns of a table are then matched by name with the table's own; parquet needs some.",
      }),
    ),
    ...givenDeliverySettings,
    ...givenConcurrency,
    ...givenOnPermanentError,
    ...givenTransform,
  },
  closed,
)
export type DestinationUpdate = Static<typeof DestinationUpdate>

/** POST …/destinations/test of a stored destination, changed as a PATCH would; a new one has the body of a create. */
export const StoredDestinationTest = Type.Object(
  { destination_id: Type.String({ format: 'uuid' }), ...DestinationUpdate.properties },
  closed,
)
export const DestinationTest = Type.Union([...Object.values(createSchemas), StoredDestinationTest])

/** PATCH …/status, and its response. */
export const DestinationStatusBody = Type.Object({ destination_status: destinationStatus }, closed)
export type DestinationStatusBody = Static<typeof DestinationStatusBody>

/** POST …/rewind. */
export const RewindRequest = Type.Object(
  {
    to: Type.Union([
      Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'A stream_seq.' }),
      Type.String({ description: '"earliest", or an ISO 8601 time with its offset.' }),
    ]),
  },
  closed,
)
export type RewindRequest = Static<typeof RewindRequest>
