/** Success bodies of the operations, as the OpenAPI document shows them and the tests check them. */
import Type from 'typebox'
import { ApiKey } from './api-key.ts'
import { ColumnMapping, destinationStatus, destinationTypes, Lane } from './destination.ts'
import { PipeLimits } from './limits.ts'
import { AllowedOrigin } from './origin.ts'
import { Pipe } from './pipe.ts'
import { PipeUsage } from './usage.ts'

const uuid = () => Type.String({ format: 'uuid' })
const timestamp = () => Type.String({ format: 'date-time' })
const seq = () => Type.Integer({ minimum: 0 })
const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const anyRecord = () => Type.Object({}, { additionalProperties: true })

/** Stored limits: every field present. */
export const StoredLimits = Type.Required(PipeLimits)

export const DestinationAnswer = Type.Object({
  destination_id: uuid(),
  pipe_id: uuid(),
  destination_type: Type.Enum([...destinationTypes]),
  destination_status: destinationStatus,
  destination_max_retry_seconds: Type.Integer({ minimum: 1 }),
  destination_config: Type.Object(
    {},
    { additionalProperties: true, description: 'As stored; secret values show as "[redacted]".' },
  ),
  columns: Type.Optional(Type.Array(ColumnMapping)),
  destination_created_ts: timestamp(),
  destination_updated_ts: timestamp(),
  lane: Lane,
})

export const answers = {
  pipeList: Type.Object({
    pipes: Type.Array(Pipe),
    usage_by_pipe: Type.Object({}, { additionalProperties: PipeUsage, description: 'By pipe_id.' }),
    usage_stats_window_hours: Type.Integer(),
  }),
  pipeCreated: Type.Object({ pipe_id: uuid() }),
  pipeDetail: Type.Object({
    pipe: Pipe,
    destinations: Type.Array(DestinationAnswer),
    limits: nullable(StoredLimits),
    allowed_origins: Type.Array(AllowedOrigin),
    api_keys: Type.Array(ApiKey),
  }),
  pipe: Type.Object({ pipe: Pipe }),
  destinationCreated: Type.Object({ destination_id: uuid() }),
  destination: Type.Object({ destination: DestinationAnswer }),
  skipped: Type.Object({
    skipped: Type.Boolean(),
    status: Type.Enum(['skipped', 'no_blocking_message']),
  }),
  retried: Type.Object({
    retried: Type.Boolean(),
    msg_id: nullable(uuid()),
    status: Type.Enum(['retried', 'no_blocking_message']),
  }),
  blockingMessage: Type.Object({
    msg_id: uuid(),
    stream_seq: seq(),
    received_ts: timestamp(),
    records_count: Type.Integer({ minimum: 1 }),
    records: Type.Array(anyRecord(), { maxItems: 20 }),
    truncated: Type.Boolean({ description: 'True when the message has more records than shown.' }),
  }),
  rewound: Type.Object({ cursor_seq: seq() }),
  tested: Type.Object({
    ok: Type.Boolean({ description: 'True when every check passed.' }),
    checks: Type.Array(Type.Object({ name: Type.String(), ok: Type.Boolean(), message: Type.String() })),
  }),
  limits: Type.Object({ limits: StoredLimits }),
  originCreated: Type.Object({ pipe_allowed_origin_id: uuid() }),
  apiKeyList: Type.Object({ api_keys: Type.Array(ApiKey) }),
  apiKeyCreated: Type.Object({
    api_key_id: uuid(),
    api_key: Type.String({ description: 'The whole key. Shown this once.' }),
    api_key_name: Type.String(),
  }),
  health: Type.Object({ status: Type.Enum(['ok']), timestamp: timestamp() }),
  accepted: Type.Object({
    accepted: Type.Literal(true),
    pipe_id: uuid(),
    pipe_name: Type.String(),
    records_count: Type.Integer({ minimum: 1 }),
    msg_id: uuid(),
    message: Type.String(),
  }),
  ingestHint: Type.Object({
    message: Type.String(),
    method: Type.Enum(['POST']),
    content_type: Type.String(),
    pipe_id: uuid(),
  }),
  pulled: Type.Object({
    pipe_id: uuid(),
    destination_id: uuid(),
    msg_id: uuid(),
    stream_seq: Type.Integer({ minimum: 1 }),
    records: Type.Array(anyRecord()),
  }),
} as const
