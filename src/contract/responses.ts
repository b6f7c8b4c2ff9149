/** Success bodies of the operations. The OpenAPI document shows them and the tests check them. */
import Type from 'typebox'
import { ApiKey } from './api-key.ts'
import { blockingPage } from './blocking-page.ts'
import { Destination, TableColumn, WrittenBy } from './destination.ts'
import { AllowedOrigin, Pipe, PipeLimits, PipeUsage } from './pipe.ts'
import { sourceToken } from './pipe-source.ts'
import { notReadyNames, readyWarningNames } from './ready-words.ts'
import { resourceLimits } from './resource-limits.ts'
import { anyObject, boolean, count, nullable, positive, string, timestamp, uuid } from './schema-parts.ts'
import { TransformCheck } from './transform-trial.ts'
import { User } from './user.ts'

const warnings = () =>
  Type.Optional(
    Type.Array(Type.Enum(readyWarningNames), {
      description:
        'Absent if there are none. Segments of the log that wait to be salvaged or are missing, and acknowledged messages that were lost, since the start. `pipectl doctor` and `pipectl verify` show details. `safe_mode`: started with `serve --safe`, nothing is delivered.',
    }),
  )

/** Limits as stored: every field is present. */
export const StoredLimits = Type.Required(PipeLimits)

export const responseBodies = {
  pipeList: Type.Object({
    pipes: Type.Array(Pipe),
    usage_by_pipe: Type.Record(Type.String(), PipeUsage, { description: 'By pipe_id.' }),
    usage_stats_window_hours: Type.Integer(),
    egress_private: Type.Enum(['allow', 'deny'], {
      description:
        'Whether destinations can be on loopback and private addresses: the present effect of the setting egress.private.',
    }),
  }),
  pipeCreated: Type.Object({ pipe_id: uuid(), pipe_source_token: sourceToken }),
  pipeDetail: Type.Object({
    pipe: Pipe,
    destinations: Type.Array(Destination),
    limits: nullable(StoredLimits),
    allowed_origins: Type.Array(AllowedOrigin),
    api_keys: Type.Array(ApiKey),
  }),
  pipe: Type.Object({ pipe: Pipe, pipe_source_token: sourceToken }),
  destinationCreated: Type.Object({
    destination_id: uuid(),
    destination_name: Type.String(),
    transform_check: Type.Optional(TransformCheck),
  }),
  destination: Type.Object({ destination: Destination }),
  destinationUpdated: Type.Object({
    destination: Destination,
    transform_check: Type.Optional(TransformCheck),
  }),
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
    stream_seq: count(),
    received_ts: timestamp(),
    records_count: positive(),
    failing: nullable(
      Type.Object(
        {
          record_index: count(),
          column: nullable(Type.String()),
          value: nullable(Type.String()),
        },
        {
          description:
            'The index of the first rejected record of the message, from 0; null if the destination does not identify single records.',
        },
      ),
    ),
    records: Type.Array(anyObject(), {
      maxItems: blockingPage.max,
      description: `The records from \`from\` on, as sent; fewer than \`limit\` if they are larger than ${resourceLimits.shownRecordBytes / 1024 / 1024} MiB in total.`,
    }),
    truncated: boolean('True if the message has more records than these.'),
    next: nullable(positive('The `from` of the page after this one; null at the end.')),
  }),
  pinReset: Type.Object({
    reset: Type.Boolean(),
    status: Type.Enum(['reset', 'no_pin']),
  }),
  rewound: Type.Object({ cursor_seq: count() }),
  tested: Type.Object({
    ok: boolean('True when every check passed.'),
    checks: Type.Array(Type.Object({ name: Type.String(), ok: Type.Boolean(), message: Type.String() })),
    table_columns: Type.Optional(
      Type.Array(TableColumn, {
        maxItems: resourceLimits.shownTableColumns,
        description:
          'For databases, if the table could be read: its columns in order, without those that the server generates. Names and types are truncated to 128 characters.',
      }),
    ),
    written_by: Type.Optional(WrittenBy),
  }),
  limits: Type.Object({ limits: StoredLimits }),
  originCreated: Type.Object({ pipe_allowed_origin_id: uuid() }),
  apiKeyList: Type.Object({ api_keys: Type.Array(ApiKey) }),
  apiKeyCreated: Type.Object({
    api_key_id: uuid(),
    api_key: string('The complete key. It is shown only in this response.'),
    api_key_name: Type.String(),
  }),
  apiKeyRotated: Type.Object({
    api_key_id: uuid(),
    api_key: string('The complete new key. It is shown only in this response.'),
    api_key_name: Type.String(),
    replaced: Type.Object({
      api_key_id: uuid(),
      api_key_expires_ts: nullable(timestamp('The time at which the old key expires; null: it is revoked.')),
    }),
  }),
  apiKeysPurged: Type.Object({ purged: count() }),
  user: Type.Object({ user: User }),
  health: Type.Object({ status: Type.Enum(['ok']), timestamp: timestamp() }),
  ready: Type.Object({ status: Type.Enum(['ready']), warnings: warnings() }),
  notReady: Type.Object({
    status: Type.Enum(['not_ready']),
    reasons: Type.Array(Type.Enum(notReadyNames)),
    warnings: warnings(),
  }),
  accepted: Type.Object({
    accepted: Type.Literal(true),
    pipe_id: uuid(),
    pipe_name: Type.String(),
    records_count: count('The records of the message. 0: all are parked, and there is no message.'),
    parked_records: Type.Optional(
      positive('The records that do not match the schema of the pipe, which are parked. Absent: none.'),
    ),
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
    stream_seq: positive(),
    records: Type.Array(anyObject()),
  }),
} as const
