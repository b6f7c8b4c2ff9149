/**
 * The tables, as Kysely sees them; `migrations.ts` creates them. Column types are those that SQLite and PostgreSQL
 * share: booleans are 0 or 1, times are milliseconds since the epoch (`…_ms`), JSON is text. Each file converts rows to
 * the shapes of the contract where it reads and writes them.
 *
 * `creation_order` counts within the parent (workspace or pipe). It keeps lists in creation order even if the clock
 * jumped or two rows share a millisecond.
 */

import type { Generated } from 'kysely'
import type { AlertFormat } from '../contract/alert-words.ts'
import type { DeliveryAttempt } from '../contract/attempts.ts'
import type { AuditActor } from '../contract/audit.ts'
import type { ClientIpMode } from '../contract/client-ip.ts'
import type { OnPermanentError } from '../contract/delivery-settings.ts'
import type { ColumnMapping, DestinationStatus, DestinationType } from '../contract/destination.ts'
import type { ParkedReason } from '../contract/parked.ts'
import type { GeoFieldKey, PipeLimits } from '../contract/pipe.ts'
import type { PrivacyState } from '../contract/privacy.ts'
import type { ReplayState } from '../contract/replays.ts'
import type { MismatchAction } from '../contract/schema-words.ts'
import type { LaneHour, UsageCounts } from '../contract/usage.ts'
import type { UserRole } from '../contract/user.ts'

/** A pipe, valid only if it belongs to the workspace. */
export interface PipeRef {
  workspaceId: string
  pipeId: string
}

/** A destination, valid only if it belongs to the workspace and to the pipe, if one is named. */
export interface DestinationRef extends Partial<PipeRef> {
  workspaceId: string
  destinationId: string
}

/** An API key, valid only if it belongs to the workspace. */
export interface ApiKeyRef {
  workspaceId: string
  apiKeyId: string
}

/** A user, valid only if it belongs to the workspace. */
export interface UserRef {
  workspaceId: string
  userId: string
}

export type Flag = 0 | 1

export interface WorkspaceRow {
  workspace_id: string
  workspace_name: string
  workspace_created_ms: number
  creation_order: number
}

export interface ApiKeyRow {
  api_key_id: string
  workspace_id: string
  api_key_name: string
  api_key_prefix: string
  /** SHA-256 of the whole key, hex. */
  api_key_hash: string
  api_key_status: 'active' | 'revoked'
  api_key_created_ms: number
  /** When the key was revoked or, if it expired first, when it expired. Null: it is active. */
  api_key_revoked_ms: number | null
  /** Scope names, separated by commas. */
  api_key_scopes: string
  /** JSON array of ids in lower case; null: all pipes of the workspace. */
  api_key_pipe_ids: string | null
  /** The key is invalid from then on, even if the status still says `active`. Null: it never expires. */
  api_key_expires_ms: number | null
  /** Rounded down to the minute. */
  api_key_last_used_ms: number | null
  creation_order: number
}

export interface PipeRow extends Record<GeoFieldKey, string | null> {
  pipe_id: string
  workspace_id: string
  pipe_name: string
  pipe_description: string
  pipe_status: 'active' | 'paused'
  pipe_add_ingest_ts: Flag
  pipe_add_ingest_ip: Flag
  pipe_ingest_ts_field: string
  pipe_ingest_ip_field: string
  pipe_client_ip: ClientIpMode
  pipe_api_key_required: Flag
  pipe_allow_any_browser_origin: Flag
  /** JSON with sealed secrets (`pipe-source.ts`). Null: it accepts no webhooks. */
  pipe_source: string | null
  /** JSON array of header names in lower case. */
  pipe_source_headers: string
  pipe_source_raw: Flag
  /** Null: the limits of the daemon. */
  pipe_retention_hours: number | null
  /** JSON. Null: every record is accepted. */
  pipe_schema: string | null
  pipe_schema_on_mismatch: MismatchAction
  pipe_schema_tag_field: string
  pipe_created_ms: number
  pipe_updated_ms: number
  creation_order: number
}

export interface DestinationRow {
  destination_id: string
  pipe_id: string
  destination_type: DestinationType
  destination_status: DestinationStatus
  destination_max_retry_seconds: number
  /** JSON. The values of the type's secret keys are sealed texts. */
  destination_config: string
  /**
   * Unique in its pipe. The column allows null because SQLite cannot change a column, but it is never null since
   * migration 14.
   */
  destination_name: string
  /** The destination's own delivery settings: all three are set or none. */
  flush_max_records: number | null
  flush_max_bytes: number | null
  flush_max_seconds: number | null
  rate_requests_per_second: number | null
  concurrency: number | null
  on_permanent_error: OnPermanentError
  /** JSON. The salt is a sealed text. Null: the destination has no transform. */
  transform: string | null
  /** The fingerprint of the server's key in lower-case hex, and when it was pinned. Null: none is pinned. */
  tls_pin_sha256: string | null
  tls_pin_first_seen_ms: number | null
  /** The number of times the pin was reset. */
  tls_pin_generation: number
  destination_created_ms: number
  destination_updated_ms: number
  creation_order: number
}

export interface DestinationColumnRow {
  destination_id: string
  position: number
  column_name: string
  column_type: ColumnMapping['column_type']
  source_field: string | null
  semantic_role: ColumnMapping['semantic_role']
  nullable: Flag
}

export interface LimitsRow extends PipeLimits {
  pipe_id: string
}

export interface OriginRow {
  pipe_allowed_origin_id: string
  pipe_id: string
  origin_domain: string
  /** The origin in lower case, which comparisons use. */
  origin_key: string
  creation_order: number
}

/** Encoded and decoded by `lane-store.ts`. */
export interface LaneRow {
  destination_id: string
  owner_epoch: number
  state: string
  row_check: number
}

export interface ParkedRow {
  /** UUID version 7. */
  parked_id: string
  destination_id: string
  msg_id: string
  stream_seq: number
  /** -1: the message as a whole, or the part of it that is not stored. */
  record_index: number
  /** The position of its first record in the message. */
  first_index: number
  received_ms: number
  /** The time at which it was last parked. */
  parked_ms: number
  reason: ParkedReason
  error_code: string
  error_message: string
  error_column: string | null
  error_value: string | null
  /** JSON: `ParkedDetail['history']`. */
  history: string
  attempts: number
  records_count: number
  body_bytes: number
  /** The lane's generation when the row was last parked. */
  generation: number
  is_edited: Flag
  is_replaying: Flag
  /** The number of replays, including a running one. */
  replays: number
  /** The number of the current replay, once it has begun; null: there is none. */
  replay_no: number | null
}

export interface ParkedBodyRow {
  parked_id: string
  /** The JSON texts of the records, one per line. */
  body: string
}

/** The sums of a destination with parked records. */
export interface ParkedSumRow {
  destination_id: string
  rows: number
  records: number
  body_bytes: number
  /** Records removed because of their age. */
  dropped_records: number
  last_replay_no: number
  /** The parked row of the replay that has begun. */
  begun_parked_id: string | null
}

/** A record that is parked at its pipe. */
export interface PipeParkedRow {
  parked_id: string
  pipe_id: string
  msg_id: string
  record_index: number
  received_ms: number
  parked_ms: number
  schema_version: number
  /** The path of the first error, as `storedPath` has it. */
  error_path: string
  /** JSON: `SchemaFault[]`. */
  errors: string
  /** JSON: `AddedMembers`. */
  enrichment: string
  is_keyed: Flag
  is_replaying: Flag
  /** The number of edits. */
  edits: number
  record_bytes: number
  /** JSON text on one line. The last column, so that a list does not read it. */
  record: string
}

/** The sums of a pipe with parked records. */
export interface PipeParkedSumRow {
  pipe_id: string
  rows: number
  record_bytes: number
  /** Records removed because of their age. */
  dropped_records: number
}

/** A parked record that is removed: a repeat of its request with the same Idempotency-Key does not park it again. */
export interface PipeParkedDoneRow {
  parked_id: string
  pipe_id: string
  msg_id: string
  done_ms: number
}

export interface UsageHourRow extends UsageCounts {
  pipe_id: string
  hour_ms: number
  last_ingest_ms: number | null
}

/** The webhooks for a pipe that were rejected in an hour, by reason. */
export interface RejectedHooksRow {
  pipe_id: string
  hour_ms: number
  reason: string
  requests: number
}

/** The records of a pipe that did not match its schema in an hour, by result. */
export interface SchemaMismatchesRow {
  pipe_id: string
  hour_ms: number
  result: string
  records: number
}

/** One of the last versions of the schema of a pipe. */
export interface SchemaVersionRow {
  pipe_id: string
  version: number
  changed_ms: number
  actor_kind: AuditActor['kind']
  actor_id: string | null
  actor_name: string | null
  pipe_schema: string | null
  pipe_schema_on_mismatch: MismatchAction
}

export interface LaneHourRow extends Omit<LaneHour, 'hour_ts'> {
  destination_id: string
  hour_ms: number
}

/** The outcome of a run of messages of a lane; runs of a lane never overlap. */
export interface LaneHistoryRow {
  destination_id: string
  first_seq: number
  last_seq: number
  /** `before`: the lane started behind these messages. */
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'before'
  at_ms: number
  /** The last message of the batch that began with `first_seq`; null: the messages were in no batch. */
  batch_last_seq: number | null
  attempts: number
}

export interface DestinationDriftRow {
  destination_id: string
  /** Identifies the columns with which the drift was counted. */
  mapping_hash: string
  /** JSON: `DriftState`. */
  state_json: string
}

export interface UsageMarkRow {
  pipe_id: string
  messages: number
  records: number
  bytes: number
}

export interface SettingRow {
  name: string
  value: string
}

/** A pipe that was deleted while the buffer held messages of it. */
export interface DeletedPipeRow {
  pipe_id: string
  workspace_id: string
  deleted_ms: number
}

export interface UserRow {
  user_id: string
  workspace_id: string
  /**
   * The address in lower case. The column is unique across workspaces, although an address is not. For further accounts
   * with an address, a space and the workspace id follow, which cannot be part of an address (`users.ts`).
   */
  user_email: string
  user_role: UserRole
  /** In the format of `password-hash.ts`. */
  password_hash: string
  user_created_ms: number
  user_last_sign_in_ms: number | null
  creation_order: number
}

export interface SessionRow {
  /** SHA-256 of the cookie's token, hex. */
  session_hash: string
  user_id: string
  session_created_ms: number
  /** Rounded down to the minute. */
  session_last_used_ms: number
}

/** An unused setup link. */
export interface SetupTokenRow {
  /** SHA-256 of the token, hex. */
  token_hash: string
  workspace_id: string
  /** The role of the user that the link creates. */
  user_role: UserRole
  setup_expires_ms: number
}

export interface AuditRow {
  workspace_id: string
  /** Grows by one with each entry of the workspace. */
  audit_id: number
  audit_ms: number
  operation: string
  actor_kind: 'key' | 'user' | 'local'
  actor_id: string | null
  actor_name: string | null
  address: string | null
  resource_id: string | null
  pipe_id: string | null
  /** JSON, at most `auditStateBytes` long. */
  before_json: string | null
  after_json: string | null
}

/** The alert settings of a workspace. */
export interface AlertSettingsRow {
  workspace_id: string
  /** Sealed. */
  alert_url: string
  /** Sealed; null: alerts are not signed. */
  alert_secret: string | null
  alert_format: AlertFormat
  /** Event names, separated by commas; null: all. */
  alert_events: string | null
  /** True once the lanes have been checked with these settings: records that a lane dropped before are then known. */
  has_begun: Flag
  last_sent_ms: number | null
  failed_ms: number | null
  failure_code: string | null
  failure_message: string | null
}

/** The alert state of one lane and one event. The subject is empty for the service itself. */
export interface AlertMarkRow {
  workspace_id: string
  subject: string
  event: string
  mark_state: 'none' | 'held' | 'raised'
  since_ms: number | null
  told_ms: number | null
  held_back: number
  counted: number
}

/** An unsent alert. */
export interface AlertQueueRow {
  workspace_id: string
  /** Grows with every alert of the workspace. */
  alert_order: number
  alert_id: string
  alert_ms: number
  alert_json: string
}

/** A node of a cluster, under the lease that its heartbeat renews. */
export interface ClusterNodeRow {
  lease_id: string
  node_id: string
  node_name: string
  node_version: string
  node_address: string | null
  /** `started_ms` and `expires_ms` are by the database's clock. */
  started_ms: number
  expires_ms: number
  /** The newest change that the node has applied; it has applied all earlier ones as well. */
  seen_change: number
  is_draining: Flag
}

/** A delivery thread, under its own lease. */
export interface ClusterWorkerRow {
  lease_id: string
  node_id: string
  expires_ms: number
  /** Null: unknown. */
  buffer_from_ms: Generated<number | null>
  buffer_until_ms: Generated<number | null>
  is_buffer_lost: Generated<number>
}

export interface PipeOwnerRow {
  pipe_id: string
  /** The lease of a worker; null: the pipe has no owner. */
  lease_id: string | null
  epoch: number
}

export interface ClusterDutyRow {
  duty: string
  /** The lease of a node; null: no node has the duty. */
  lease_id: string | null
}

/** A change of a pipe or of a key: cached copies of it must be read again. */
export interface ChangeRow {
  change_seq: number
  pipe_id: string | null
  api_key_id: string | null
  is_revoked: Flag
  /** By the database's clock. */
  change_ms: number
}

/** The sums that nodes of a cluster have reserved of a pipe's quota for a UTC day. */
export interface QuotaDayRow {
  pipe_id: string
  day_start_ms: number
  /** A UUID that changes when the sums start again. */
  ledger_id: string
  records: number
  bytes: number
  /** The size of the last reservation. */
  granted_records: number
  granted_bytes: number
}

/** The demand of one node's clients. */
export interface QuotaRateRow {
  pipe_id: string
  node_id: string
  records_per_second: number
  /** By the database's clock. */
  expires_ms: number
}

export interface MigrationRow {
  number: number
  name: string
  applied_ms: number
}

/** Written and read by `lane-history.ts`. */
export interface LaneAttemptRow {
  destination_id: string
  /** The newest attempt of an outcome takes the slot of its oldest. */
  slot: number
  attempt_no: number
  /** When it began. */
  at_ms: number
  outcome: DeliveryAttempt['outcome']
  /** A `DeliveryAttempt`. */
  attempt_json: string
}

/** Written and read by `lane-history.ts`. */
export interface LaneLatencyRow {
  destination_id: string
  hour_ms: number
  /** A `LatencyCounts`. */
  latency_json: string
}

/** A replay of a range of messages. Written by `replays.ts`, and its progress by the owner of the lane. */
export interface ReplayRow {
  /** UUID version 7: replays run in its order. */
  replay_id: string
  destination_id: string
  state: ReplayState
  /** It will not run any more. */
  is_over: Flag
  created_ms: number
  finished_ms: number | null
  /** A `RequestedReplay`. */
  request_json: string
  /** A `ReplayProgress`. */
  progress_json: string
}

/** A job that finds or deletes personal data. */
export interface PrivacyJobRow {
  /** Version 7: in the order of creation. */
  job_id: string
  workspace_id: string
  state: PrivacyState
  /** It will not run any more. */
  is_over: Flag
  created_ms: number
  finished_ms: number | null
  /** A `RequestedJob`. */
  request_json: string
  /** The keys with their values, sealed. Null: the job is over. */
  sealed_keys: string | null
  /** A `PrivacyProgress`. */
  progress_json: string
}

/** A column that `auto_add_columns` adds to the table of a destination: `added-columns.ts`. */
export interface AddedColumnRow {
  destination_id: string
  column_name: string
  /** Identifies the table. */
  table_key: string
  planned_ms: number
  is_added: Flag
}

export interface Tables {
  workspaces: WorkspaceRow
  api_keys: ApiKeyRow
  pipes: PipeRow
  destinations: DestinationRow
  destination_columns: DestinationColumnRow
  pipe_limits: LimitsRow
  pipe_allowed_origins: OriginRow
  lanes: LaneRow
  usage_hours: UsageHourRow
  rejected_hooks: RejectedHooksRow
  schema_mismatches: SchemaMismatchesRow
  schema_versions: SchemaVersionRow
  lane_hours: LaneHourRow
  lane_history: LaneHistoryRow
  lane_attempts: LaneAttemptRow
  lane_latency: LaneLatencyRow
  parked: ParkedRow
  parked_bodies: ParkedBodyRow
  parked_sums: ParkedSumRow
  pipe_parked: PipeParkedRow
  pipe_parked_sums: PipeParkedSumRow
  pipe_parked_done: PipeParkedDoneRow
  replays: ReplayRow
  privacy_jobs: PrivacyJobRow
  destination_drift: DestinationDriftRow
  added_columns: AddedColumnRow
  usage_marks: UsageMarkRow
  deleted_pipes: DeletedPipeRow
  users: UserRow
  sessions: SessionRow
  setup_tokens: SetupTokenRow
  audit_log: AuditRow
  alert_settings: AlertSettingsRow
  alert_marks: AlertMarkRow
  alert_queue: AlertQueueRow
  cluster_nodes: ClusterNodeRow
  cluster_workers: ClusterWorkerRow
  pipe_owners: PipeOwnerRow
  cluster_duties: ClusterDutyRow
  changes: ChangeRow
  quota_days: QuotaDayRow
  quota_rates: QuotaRateRow
  metadata_settings: SettingRow
  metadata_migrations: MigrationRow
}

/** Returns an id in lower case, the form in which ids are stored and compared. Clients can send either case. */
export function normaliseId(id: string): string {
  return id.toLowerCase()
}

/** Returns the address that is displayed, from `users.user_email`. */
export function addressOf(storedEmail: string): string {
  return storedEmail.split(' ')[0]!
}

export function toFlag(value: boolean): Flag {
  return value ? 1 : 0
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
