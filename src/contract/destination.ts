/** A destination, the configs of all types, and column mappings. Rules: docs/dev/contract.md#destinations. */
import Type, { type Static } from 'typebox'
import { DestinationConcurrency, OnPermanentError, shownDeliverySettings } from './delivery-settings.ts'
import { type DestinationType, destinationTypes, redacted, typeFacts } from './destination-words.ts'
import { type ResolvedFields, resolvedConfig } from './destinations/config-field.ts'
import { configSchemaOf } from './destinations/config-schema.ts'
import {
  anyObject,
  boolean,
  closed,
  count,
  nullable,
  positive,
  string,
  text,
  timestamp,
  uuid,
} from './schema-parts.ts'
import { ShownTransform } from './transform.ts'

export type { DestinationType }
export { destinationTypes, redacted }

const schemas = new Map(destinationTypes.map((type) => [type, configSchemaOf(typeFacts[type].fields)]))

/** The schema of a type's config in requests. */
export function configSchema(type: DestinationType): Type.TObject {
  return schemas.get(type)!
}

/** The destination type with its config, every default filled in. */
export type ResolvedConfig = {
  [T in DestinationType]: {
    readonly type: T
    readonly config: ResolvedFields<(typeof typeFacts)[T]['fields']>
  }
}[DestinationType]

/** `config` must match the schema of its type. It was validated before it was stored. */
export function resolveConfig(
  type: DestinationType,
  config: Readonly<Record<string, unknown>>,
): ResolvedConfig {
  const resolved = { type, config: resolvedConfig(typeFacts[type].fields, config) }
  return resolved as ResolvedConfig
}

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
  closed,
)
/**
 * A column as it is stored and shown: every key is present. `source_field` and `semantic_role` are null when not set.
 */
export const StoredColumn = Type.Required(ColumnMapping)
export type ColumnMapping = Static<typeof StoredColumn>

/** A column of the destination's table as the database describes it, from which a mapping can be created. */
export const TableColumn = Type.Object({
  column_name: Type.String(),
  data_type: string('The type in the spelling of the database: `character varying(20)`, `int(11)`.'),
  is_nullable: Type.Boolean(),
  has_default: boolean('True if the database provides a value: a default, an identity, auto_increment.'),
})
export type TableColumn = Static<typeof TableColumn>

export const WrittenBy = Type.Enum(['copy', 'insert'], {
  description:
    'For databases, if the columns fit: how the rows of a large batch are written. The check of the same name has the reason.',
})
export type WrittenBy = Static<typeof WrittenBy>

export const destinationStatus = Type.Enum(['active', 'blocked'])
export type DestinationStatus = 'active' | 'blocked'
export const laneStates = ['idle', 'flowing', 'retrying', 'stalled', 'blocked'] as const
export type LaneStateName = (typeof laneStates)[number]

const seq = count('stream_seq')

/** The read-only state of a destination's lane (docs/dev/contract.md#lane-status). */
export const LaneStatus = Type.Object({
  lane_state: Type.Enum([...laneStates]),
  cursor_seq: seq,
  head_seq: seq,
  pending_messages: count(),
  pending_bytes: count(),
  oldest_pending_age_seconds: count(),
  blocking_msg_id: nullable(uuid()),
  attempts: count(),
  first_failed_ts: nullable(timestamp()),
  next_attempt_ts: nullable(timestamp()),
  last_error: nullable(
    Type.Object({
      class: Type.Enum(['transient', 'permanent']),
      code: Type.String(),
      message: Type.String(),
      fault: nullable(
        Type.Enum(['records', 'destination'], {
          description:
            'The cause of a permanent error. `records`: the content of a record was rejected. `destination`: no record is at fault (a wrong password, a missing table), so skipping one does not help.',
        }),
      ),
      record_index: nullable(
        count(
          'The index of the first rejected record of the blocking message, from 0. Null if the destination does not identify single records.',
        ),
      ),
      column: nullable(string('The column that rejected the record, if known.')),
      value: nullable(string('The rejected value, if known: at most 200 characters.')),
    }),
  ),
  last_delivered_ts: nullable(timestamp()),
  delivered_records: count(),
  filtered_records: Type.Optional(
    count('Records that the transform filtered out: not delivered, and not in `delivered_records`.'),
  ),
  skipped_messages: count(),
  dropped_messages: count(),
  parked_records: Type.Optional(
    count(
      'The number of parked records, including those that are being replayed. A message that is parked as a whole counts once.',
    ),
  ),
  parked_dropped_records: Type.Optional(
    count('Parked records that were removed after `parked.days` without a replay or discard.'),
  ),
  unmapped_keys: Type.Optional(
    count(
      'Keys that occur repeatedly in the records and that no column takes (see GET …/drift). Absent: none is known.',
    ),
  ),
  stale: Type.Optional(
    boolean(
      'True while delivery is being restarted or does not respond: the lane is shown as it was last saved.',
    ),
  ),
})
export type LaneStatus = Static<typeof LaneStatus>

/** The public key of a database server whose certificate is not verified. The first connection pins it. */
export const TlsPin = Type.Object(
  {
    sha256: string("SHA-256 of the certificate's public key (SubjectPublicKeyInfo), lower-case hex."),
    first_seen_ts: timestamp(),
  },
  {
    description:
      'Pinned by the first connection over TLS. A server with another key is rejected (`last_error.code` `certificate_changed`) until the pin is reset; a change of host or port resets it.',
  },
)
export type TlsPin = Static<typeof TlsPin>

/**
 * A destination in responses, with redacted secrets. `columns` is present for databases and Parquet objects,
 * `tls_pin` only for database servers, `concurrency` for HTTP endpoints and NATS.
 */
export const Destination = Type.Object({
  destination_id: uuid(),
  pipe_id: uuid(),
  destination_type: Type.Enum([...destinationTypes]),
  destination_status: destinationStatus,
  destination_max_retry_seconds: positive(),
  destination_config: anyObject('The stored config; secret values are shown as "[redacted]".'),
  columns: Type.Optional(Type.Array(StoredColumn)),
  ...shownDeliverySettings,
  concurrency: Type.Optional(DestinationConcurrency),
  on_permanent_error: OnPermanentError,
  transform: Type.Optional(nullable(ShownTransform)),
  tls_pin: Type.Optional(nullable(TlsPin)),
  destination_created_ts: timestamp(),
  destination_updated_ts: timestamp(),
  lane: LaneStatus,
})
export type Destination = Static<typeof Destination>

export const defaultMaxRetrySeconds = 86_400
