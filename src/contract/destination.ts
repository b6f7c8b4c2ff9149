/** A destination, its configuration by type and its column mappings. Rules: spec "Destination"; contract "destination_type and its config". */
import Type, { type Static } from 'typebox'

export const destinationTypes = [
  'destination_database',
  'destination_object_store',
  'destination_http_endpoint',
  'destination_pull',
] as const
export type DestinationType = (typeof destinationTypes)[number]

/** Keys whose value is sealed at rest and shown as `[redacted]`; the first of each is the spec's. */
export const secretKeys: Record<DestinationType, readonly string[]> = {
  destination_database: ['password'],
  destination_object_store: ['secret_key', 'session_token'],
  destination_http_endpoint: ['auth_header', 'signing_secret'],
  destination_pull: [],
}
export const redacted = '[redacted]'

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const text = (maxLength = 1000) => Type.String({ minLength: 1, maxLength })

export const databaseDialects = ['postgresql', 'postgres', 'pg', 'mysql', 'mariadb'] as const

export const DatabaseConfig = Type.Object(
  {
    host: text(255),
    port: Type.Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 65535 }), Type.String({ pattern: '^[0-9]{1,5}$' })]),
    ),
    database: text(),
    username: text(),
    password: Type.String({ maxLength: 4096 }),
    table: text(),
    dialect: Type.Optional(Type.Enum([...databaseDialects])),
    sql_dialect: Type.Optional(Type.Enum([...databaseDialects])),
  },
  { additionalProperties: false },
)

export const ObjectStoreConfig = Type.Object(
  {
    bucket: text(255),
    region: Type.Optional(text(100)),
    endpoint: Type.Optional(nullable(text(2000))),
    force_path_style: Type.Optional(Type.Boolean()),
    access_key: Type.Optional(nullable(Type.String({ maxLength: 1000 }))),
    secret_key: Type.Optional(nullable(Type.String({ maxLength: 4096 }))),
    session_token: Type.Optional(nullable(Type.String({ maxLength: 8192 }))),
    key_template: Type.Optional(text(900)),
    format: Type.Optional(Type.Enum(['ndjson', 'json_array'])),
    compression: Type.Optional(Type.Enum(['gzip', 'none'])),
    storage_class: Type.Optional(nullable(text(100))),
    sse: Type.Optional(nullable(Type.Enum(['AES256', 'aws:kms']))),
    kms_key_id: Type.Optional(nullable(text(2048))),
  },
  { additionalProperties: false },
)

export const HttpEndpointConfig = Type.Object(
  {
    url: text(4000),
    auth_header: Type.Optional(nullable(Type.String({ maxLength: 8192 }))),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String({ maxLength: 4096 }), { maxProperties: 20 }),
    ),
    method: Type.Optional(Type.Enum(['POST', 'PUT'])),
    body_format: Type.Optional(Type.Enum(['json_array', 'ndjson', 'json_object'])),
    compression: Type.Optional(Type.Enum(['none', 'gzip'])),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1000, maximum: 60000 })),
    signing_secret: Type.Optional(nullable(Type.String({ maxLength: 200 }))),
  },
  { additionalProperties: false },
)

export const PullConfig = Type.Object(
  {
    ack_mode: Type.Optional(Type.Enum(['auto', 'explicit'])),
    lease_seconds: Type.Optional(Type.Integer({ minimum: 5, maximum: 600 })),
  },
  { additionalProperties: false },
)

export const configSchemas = {
  destination_database: DatabaseConfig,
  destination_object_store: ObjectStoreConfig,
  destination_http_endpoint: HttpEndpointConfig,
  destination_pull: PullConfig,
} as const

export type DatabaseConfig = Static<typeof DatabaseConfig>
export type ObjectStoreConfig = Static<typeof ObjectStoreConfig>
export type HttpEndpointConfig = Static<typeof HttpEndpointConfig>
export type PullConfig = Static<typeof PullConfig>

export const defaultKeyTemplate =
  '{pipe_name}/date={yyyy}-{MM}-{dd}/hour={HH}/{first_seq}-{last_seq}-{destination_id}.{ext}'

export const columnTypes = ['string', 'number', 'boolean', 'object', 'array', 'null'] as const
export const semanticRoles = ['dedupe_id', 'record_ts', 'received_at'] as const

export const ColumnMapping = Type.Object(
  {
    column_name: text(128),
    column_type: Type.Enum([...columnTypes]),
    source_field: Type.Optional(nullable(Type.String({ maxLength: 1000 }))),
    semantic_role: Type.Optional(nullable(Type.Enum([...semanticRoles]))),
    nullable: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)
/** A mapping as stored: every key present. `source_field` and `semantic_role` are null when not given. */
export interface ColumnMapping {
  column_name: string
  column_type: (typeof columnTypes)[number]
  source_field: string | null
  semantic_role: (typeof semanticRoles)[number] | null
  nullable: boolean
}

export const destinationStatus = Type.Enum(['active', 'blocked'])
export type DestinationStatus = 'active' | 'blocked'
export const laneStates = ['idle', 'flowing', 'retrying', 'stalled', 'blocked'] as const
export type LaneState = (typeof laneStates)[number]

const seq = Type.Integer({ minimum: 0, description: 'stream_seq' })
const timestamp = Type.String({ format: 'date-time' })

/** How one destination's lane stands: read-only (contract "Management bodies"). */
export const Lane = Type.Object({
  lane_state: Type.Enum([...laneStates]),
  cursor_seq: seq,
  head_seq: seq,
  pending_messages: Type.Integer({ minimum: 0 }),
  pending_bytes: Type.Integer({ minimum: 0 }),
  oldest_pending_age_seconds: Type.Integer({ minimum: 0 }),
  blocking_msg_id: nullable(Type.String({ format: 'uuid' })),
  attempts: Type.Integer({ minimum: 0 }),
  first_failed_ts: nullable(timestamp),
  next_attempt_ts: nullable(timestamp),
  last_error: nullable(
    Type.Object({
      class: Type.Enum(['transient', 'permanent']),
      code: Type.String(),
      message: Type.String(),
    }),
  ),
  last_delivered_ts: nullable(timestamp),
  delivered_records: Type.Integer({ minimum: 0 }),
  skipped_messages: Type.Integer({ minimum: 0 }),
  dropped_messages: Type.Integer({ minimum: 0 }),
})
export type Lane = Static<typeof Lane>

/** A destination as responses show it: secrets redacted, `columns` on database destinations only. */
export interface Destination {
  destination_id: string
  pipe_id: string
  destination_type: DestinationType
  destination_status: DestinationStatus
  destination_max_retry_seconds: number
  destination_config: Record<string, unknown>
  columns?: ColumnMapping[]
  destination_created_ts: string
  destination_updated_ts: string
  lane: Lane
}
export const defaultMaxRetrySeconds = 86_400
