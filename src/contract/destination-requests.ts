/** What clients send about destinations. Rules: spec "Destination", contract "Management bodies". */
import Type, { type Static } from 'typebox'
import {
  ColumnMapping,
  configSchemas,
  type DestinationType,
  defaultMaxRetrySeconds,
  destinationStatus,
  destinationTypes,
} from './destination.ts'

const closed = { additionalProperties: false } as const
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
}

/** POST …/destinations, by type: `destination_type` decides the shape of the rest. */
export const destinationCreateSchemas = {
  destination_database: Type.Object(
    {
      destination_type: Type.Enum(['destination_database']),
      destination_config: configSchemas.destination_database,
      columns,
      ...common,
    },
    closed,
  ),
  destination_object_store: Type.Object(
    {
      destination_type: Type.Enum(['destination_object_store']),
      destination_config: configSchemas.destination_object_store,
      ...common,
    },
    closed,
  ),
  destination_http_endpoint: Type.Object(
    {
      destination_type: Type.Enum(['destination_http_endpoint']),
      destination_config: configSchemas.destination_http_endpoint,
      ...common,
    },
    closed,
  ),
  destination_pull: Type.Object(
    {
      destination_type: Type.Enum(['destination_pull']),
      destination_config: Type.Optional(configSchemas.destination_pull),
      ...common,
    },
    closed,
  ),
} as const satisfies Record<DestinationType, Type.TSchema>

/** The body of a create as one schema, for the description; validation goes by `destination_type` at once. */
export const DestinationCreate = Type.Union(Object.values(destinationCreateSchemas))

/** What decides which of the above applies; the rest of the body is looked at afterwards. */
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
          description:
            'Merged over the stored config, key by key. A secret sent as "" or "[redacted]" keeps its stored value; null removes an optional key.',
        },
      ),
    ),
    columns: Type.Optional(
      Type.Array(ColumnMapping, {
        minItems: 1,
        maxItems: 1600,
        description: 'Database destinations: replaces all column mappings.',
      }),
    ),
  },
  closed,
)
export type DestinationUpdate = Static<typeof DestinationUpdate>

/** PATCH …/status, and its answer. */
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
