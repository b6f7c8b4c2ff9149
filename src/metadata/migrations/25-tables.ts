/**
 * Migration 25, the baseline: every table as this version reads it. It is released and must not change; a test compares
 * its hash. A change of the tables is a new migration with the next number.
 *
 * On one machine the tables of a cluster stay empty: `cluster_…`, `pipe_owners`, `changes`, `quota_…`, `key_claims` and
 * `used_keys_…`.
 */
import { type CreateTableBuilder, sql, type Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

interface Table {
  /**
   * `name type`, separated by commas. A column is not null unless `?` follows. `= value` is its default; `key` makes it
   * the primary key.
   */
  columns: string
  /** The columns of the primary key, whose constraint is named `<table>_key`. */
  key?: string[]
  /** Constraints by name. */
  unique?: Record<string, string[]>
  /** A row is deleted with the row of this table that it refers to. */
  of?: { constraint: string; column: string; table: string }
  indexes?: Record<string, string[]>
}

/** A ring of tables. Each holds the keys of eight hours and is emptied as a whole before it is used again. */
const ringTables = 6
const usedKeys: Table = {
  columns: 'key_hash text key, body_hash text, msg_id text, record_count bigint, seq bigint, used_ms bigint',
}

/** A table comes after the tables that it refers to. */
const tables: Record<string, Table> = {
  metadata_settings: {
    columns: 'name text, value text',
    key: ['name'],
  },
  workspaces: {
    columns: 'workspace_id text, workspace_name text, workspace_created_ms bigint, creation_order bigint',
    key: ['workspace_id'],
    unique: { workspaces_name: ['workspace_name'] },
  },
  api_keys: {
    columns: `
      api_key_id text, workspace_id text, api_key_name text, api_key_prefix text, api_key_hash text,
      api_key_status text, api_key_created_ms bigint, creation_order bigint, api_key_revoked_ms bigint?,
      api_key_scopes text = manage, api_key_pipe_ids text?, api_key_expires_ms bigint?,
      api_key_last_used_ms bigint?`,
    key: ['api_key_id'],
    unique: { api_keys_hash: ['api_key_hash'] },
    of: { constraint: 'api_keys_workspace', column: 'workspace_id', table: 'workspaces' },
    indexes: { api_keys_of_workspace: ['workspace_id'] },
  },
  pipes: {
    columns: `
      pipe_id text, workspace_id text, pipe_name text, pipe_description text, pipe_status text,
      pipe_add_ingest_ts integer, pipe_add_ingest_ip integer, pipe_ingest_ts_field text,
      pipe_ingest_ip_field text, pipe_ingest_geo_country_field text?, pipe_ingest_geo_region_field text?,
      pipe_ingest_geo_city_field text?, pipe_ingest_geo_postal_field text?,
      pipe_ingest_geo_latitude_field text?, pipe_ingest_geo_longitude_field text?,
      pipe_ingest_geo_accuracy_radius_field text?, pipe_api_key_required integer,
      pipe_allow_any_browser_origin integer, pipe_created_ms bigint, pipe_updated_ms bigint,
      creation_order bigint`,
    key: ['pipe_id'],
    unique: { pipes_name: ['workspace_id', 'pipe_name'] },
    of: { constraint: 'pipes_workspace', column: 'workspace_id', table: 'workspaces' },
  },
  pipe_limits: {
    columns: `
      pipe_id text, pl_ingest_max_records_per_request bigint, pl_ingest_max_records_per_second bigint,
      pl_ingest_max_records_per_day bigint, pl_ingest_max_bytes_per_day bigint?,
      pl_delivery_max_records_per_flush bigint, pl_delivery_max_bytes_per_flush bigint,
      pl_delivery_max_seconds_per_flush bigint`,
    key: ['pipe_id'],
    of: { constraint: 'pipe_limits_pipe', column: 'pipe_id', table: 'pipes' },
  },
  pipe_allowed_origins: {
    columns: `
      pipe_allowed_origin_id text, pipe_id text, origin_domain text, origin_key text,
      creation_order bigint`,
    key: ['pipe_allowed_origin_id'],
    unique: { pipe_allowed_origins_origin: ['pipe_id', 'origin_key'] },
    of: { constraint: 'pipe_allowed_origins_pipe', column: 'pipe_id', table: 'pipes' },
  },
  destinations: {
    columns: `
      destination_id text, pipe_id text, destination_type text, destination_status text,
      destination_max_retry_seconds bigint, destination_config text, destination_created_ms bigint,
      destination_updated_ms bigint, creation_order bigint, destination_name text?,
      flush_max_records bigint?, flush_max_bytes bigint?, flush_max_seconds bigint?,
      rate_requests_per_second double precision?, concurrency integer?, tls_pin_sha256 text?,
      tls_pin_first_seen_ms bigint?, tls_pin_generation bigint = 0, on_permanent_error text = block,
      transform text?`,
    key: ['destination_id'],
    of: { constraint: 'destinations_pipe', column: 'pipe_id', table: 'pipes' },
    indexes: { destinations_of_pipe: ['pipe_id'] },
  },
  destination_columns: {
    columns: `
      destination_id text, position integer, column_name text, column_type text, source_field text?,
      semantic_role text?, nullable integer`,
    key: ['destination_id', 'position'],
    of: { constraint: 'destination_columns_destination', column: 'destination_id', table: 'destinations' },
  },
  lanes: {
    columns: 'destination_id text, owner_epoch bigint, state text, row_check bigint',
    key: ['destination_id'],
    of: { constraint: 'lanes_destination', column: 'destination_id', table: 'destinations' },
  },
  usage_hours: {
    columns: `
      pipe_id text, hour_ms bigint, ingest_requests bigint, ingest_records bigint, ingest_bytes bigint,
      rejected_requests bigint, delivered_records bigint, failed_attempts bigint, skipped_records bigint,
      last_ingest_ms bigint?, filtered_records bigint = 0`,
    key: ['pipe_id', 'hour_ms'],
    of: { constraint: 'usage_hours_pipe', column: 'pipe_id', table: 'pipes' },
    indexes: { usage_hours_by_hour: ['hour_ms'] },
  },
  usage_marks: {
    columns: 'pipe_id text, messages bigint, records bigint, bytes bigint',
    key: ['pipe_id'],
    of: { constraint: 'usage_marks_pipe', column: 'pipe_id', table: 'pipes' },
  },
  deleted_pipes: {
    columns: 'pipe_id text, deleted_ms bigint, workspace_id text?',
    key: ['pipe_id'],
    indexes: { deleted_pipes_of_workspace: ['workspace_id'] },
  },
  users: {
    columns: `
      user_id text, workspace_id text, user_email text, user_role text, password_hash text,
      user_created_ms bigint, user_last_sign_in_ms bigint?, creation_order bigint`,
    key: ['user_id'],
    unique: { users_email: ['user_email'] },
    of: { constraint: 'users_workspace', column: 'workspace_id', table: 'workspaces' },
    indexes: { users_of_workspace: ['workspace_id'] },
  },
  sessions: {
    columns: 'session_hash text, user_id text, session_created_ms bigint, session_last_used_ms bigint',
    key: ['session_hash'],
    of: { constraint: 'sessions_user', column: 'user_id', table: 'users' },
    indexes: { sessions_of_user: ['user_id'] },
  },
  setup_tokens: {
    columns: 'token_hash text, workspace_id text, user_role text, setup_expires_ms bigint',
    key: ['token_hash'],
    of: { constraint: 'setup_tokens_workspace', column: 'workspace_id', table: 'workspaces' },
  },
  lane_hours: {
    columns: `
      destination_id text, hour_ms bigint, delivered_records bigint, failed_attempts bigint,
      skipped_records bigint, filtered_records bigint = 0`,
    key: ['destination_id', 'hour_ms'],
    of: { constraint: 'lane_hours_destination', column: 'destination_id', table: 'destinations' },
    indexes: { lane_hours_by_hour: ['hour_ms'] },
  },
  audit_log: {
    columns: `
      workspace_id text, audit_id bigint, audit_ms bigint, operation text, actor_kind text,
      actor_id text?, actor_name text?, address text?, resource_id text?, pipe_id text?,
      before_json text?, after_json text?`,
    key: ['workspace_id', 'audit_id'],
    of: { constraint: 'audit_log_workspace', column: 'workspace_id', table: 'workspaces' },
  },
  lane_history: {
    columns: `
      destination_id text, first_seq bigint, last_seq bigint, kind text, at_ms bigint,
      batch_last_seq bigint?, attempts bigint`,
    key: ['destination_id', 'first_seq'],
    of: { constraint: 'lane_history_destination', column: 'destination_id', table: 'destinations' },
  },
  parked: {
    columns: `
      parked_id text key, destination_id text, msg_id text, stream_seq bigint, record_index bigint,
      first_index bigint, received_ms bigint, parked_ms bigint, reason text, error_code text,
      error_message text, error_column text?, error_value text?, history text, attempts bigint,
      records_count bigint, body_bytes bigint, generation bigint, is_edited integer = 0,
      is_replaying integer = 0, replays bigint = 0, replay_no bigint?`,
    unique: { parked_record: ['destination_id', 'msg_id', 'record_index'] },
    of: { constraint: 'parked_destination', column: 'destination_id', table: 'destinations' },
    indexes: {
      parked_in_order: ['destination_id', 'stream_seq', 'record_index'],
      parked_replays: ['destination_id', 'is_replaying', 'stream_seq', 'record_index'],
      parked_by_age: ['is_replaying', 'parked_ms'],
    },
  },
  parked_bodies: {
    columns: 'parked_id text key, body text',
    of: { constraint: 'parked_bodies_parked', column: 'parked_id', table: 'parked' },
  },
  parked_sums: {
    columns: `
      destination_id text key, rows bigint, records bigint, body_bytes bigint, dropped_records bigint,
      last_replay_no bigint, begun_parked_id text?`,
    of: { constraint: 'parked_sums_destination', column: 'destination_id', table: 'destinations' },
  },
  alert_settings: {
    columns: `
      workspace_id text key, alert_url text, alert_secret text?, alert_format text, alert_events text?,
      has_begun integer = 0, last_sent_ms bigint?, failed_ms bigint?, failure_code text?,
      failure_message text?`,
    of: { constraint: 'alert_settings_workspace', column: 'workspace_id', table: 'workspaces' },
  },
  alert_marks: {
    columns: `
      workspace_id text, subject text, event text, mark_state text, since_ms bigint?, told_ms bigint?,
      held_back bigint = 0, counted bigint = 0`,
    key: ['workspace_id', 'subject', 'event'],
    of: { constraint: 'alert_marks_settings', column: 'workspace_id', table: 'alert_settings' },
  },
  alert_queue: {
    columns: 'workspace_id text, alert_order bigint, alert_id text, alert_ms bigint, alert_json text',
    key: ['workspace_id', 'alert_order'],
    of: { constraint: 'alert_queue_settings', column: 'workspace_id', table: 'alert_settings' },
  },
  destination_drift: {
    columns: 'destination_id text key, mapping_hash text, state_json text',
    of: { constraint: 'destination_drift_destination', column: 'destination_id', table: 'destinations' },
  },
  cluster_nodes: {
    columns: `
      lease_id text key, node_id text, node_name text, node_version text, node_address text?,
      started_ms bigint, expires_ms bigint, seen_change bigint, is_draining integer`,
    unique: { cluster_nodes_node: ['node_id'] },
  },
  cluster_workers: {
    columns: `
      lease_id text key, node_id text, expires_ms bigint, buffer_from_ms bigint?, buffer_until_ms bigint?,
      is_buffer_lost integer = 0`,
  },
  pipe_owners: {
    columns: 'pipe_id text key, lease_id text?, epoch bigint',
    of: { constraint: 'pipe_owners_pipe', column: 'pipe_id', table: 'pipes' },
    indexes: { pipe_owners_lease: ['lease_id'] },
  },
  cluster_duties: {
    columns: 'duty text key, lease_id text?',
  },
  changes: {
    columns: 'change_seq bigint key, pipe_id text?, api_key_id text?, is_revoked integer, change_ms bigint',
  },
  quota_days: {
    columns: `
      pipe_id text, day_start_ms bigint, ledger_id text, records bigint, bytes bigint,
      granted_records bigint, granted_bytes bigint`,
    key: ['pipe_id', 'day_start_ms'],
    of: { constraint: 'quota_days_pipe', column: 'pipe_id', table: 'pipes' },
  },
  quota_rates: {
    columns: 'pipe_id text, node_id text, records_per_second bigint, expires_ms bigint',
    key: ['pipe_id', 'node_id'],
  },
  key_claims: {
    columns: `
      key_hash text key, body_hash text, pipe_id text, chain text, after_seq bigint, attempt_id text,
      msg_id text, record_count bigint, claimed_ms bigint`,
  },
  ...Object.fromEntries(Array.from({ length: ringTables }, (_, at) => [`used_keys_${at}`, usedKeys])),
}

export async function createTables(trx: Transaction<Tables>): Promise<void> {
  for (const [name, table] of Object.entries(tables)) {
    await created(trx, name, table).execute()
    for (const [index, columns] of Object.entries(table.indexes ?? {}))
      await trx.schema.createIndex(index).on(name).columns(columns).execute()
  }
  await trx.schema
    .createIndex('destinations_name')
    .unique()
    .on('destinations')
    .columns(['pipe_id', 'destination_name'])
    .execute()
  // A revoked key keeps its row, and its name can be used again.
  await trx.schema
    .createIndex('api_keys_active_name')
    .unique()
    .on('api_keys')
    .columns(['workspace_id', 'api_key_name'])
    .where(sql.ref('api_key_status'), '=', sql.lit('active'))
    .execute()
}

function created(trx: Transaction<Tables>, name: string, { columns, key, unique, of }: Table) {
  let table: CreateTableBuilder<string, string> = trx.schema.createTable(name)
  for (const column of columns.trim().split(/,\s+/)) table = withColumn(table, column)
  if (key !== undefined) table = table.addPrimaryKeyConstraint(`${name}_key`, key)
  for (const [constraint, names] of Object.entries(unique ?? {}))
    table = table.addUniqueConstraint(constraint, names)
  return of === undefined
    ? table
    : table.addForeignKeyConstraint(of.constraint, [of.column], of.table, [of.column], (reference) =>
        reference.onDelete('cascade'),
      )
}

const definition = /^(\w+) (text|bigint|integer|double precision)(\?| key|(?: = (\w+)))?$/

function withColumn(table: CreateTableBuilder<string, string>, column: string) {
  const [, name = '', type, kind, value] = definition.exec(column) ?? []
  return table.addColumn(name, type as 'text' | 'bigint' | 'integer' | 'double precision', (built) => {
    if (kind === '?') return built
    if (kind === ' key') return built.primaryKey()
    if (value === undefined) return built.notNull()
    return built.notNull().defaultTo(type === 'text' ? value : Number(value))
  })
}
