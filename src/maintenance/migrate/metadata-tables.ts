/** The tables that a move copies, in the order in which rows can be inserted: parents first. */
import type { Tables } from '../../metadata/tables.ts'

export interface CopiedTable {
  name: keyof Tables
  /** The primary key. Rows are read page by page in this order. */
  key: readonly [string, ...string[]]
  /** Rows per page. Default: 500. */
  page?: number
}

export const copiedTables: readonly CopiedTable[] = [
  { name: 'workspaces', key: ['workspace_id'] },
  { name: 'users', key: ['user_id'] },
  { name: 'api_keys', key: ['api_key_id'] },
  { name: 'pipes', key: ['pipe_id'] },
  { name: 'schema_versions', key: ['pipe_id', 'version'] },
  { name: 'pipe_limits', key: ['pipe_id'] },
  { name: 'pipe_allowed_origins', key: ['pipe_allowed_origin_id'] },
  { name: 'destinations', key: ['destination_id'] },
  { name: 'destination_columns', key: ['destination_id', 'position'] },
  { name: 'destination_drift', key: ['destination_id'] },
  { name: 'added_columns', key: ['destination_id', 'column_name'] },
  { name: 'lanes', key: ['destination_id'] },
  { name: 'lane_hours', key: ['destination_id', 'hour_ms'] },
  { name: 'lane_latency', key: ['destination_id', 'hour_ms'] },
  { name: 'lane_history', key: ['destination_id', 'first_seq'] },
  { name: 'parked', key: ['parked_id'] },
  // A body can have megabytes.
  { name: 'parked_bodies', key: ['parked_id'], page: 8 },
  { name: 'parked_sums', key: ['destination_id'] },
  // A record can have megabytes.
  { name: 'pipe_parked', key: ['parked_id'], page: 8 },
  { name: 'pipe_parked_sums', key: ['pipe_id'] },
  { name: 'pipe_parked_done', key: ['parked_id'] },
  { name: 'usage_hours', key: ['pipe_id', 'hour_ms'] },
  { name: 'rejected_hooks', key: ['pipe_id', 'hour_ms', 'reason'] },
  { name: 'schema_mismatches', key: ['pipe_id', 'hour_ms', 'result'] },
  { name: 'audit_log', key: ['workspace_id', 'audit_id'] },
  { name: 'alert_settings', key: ['workspace_id'] },
  { name: 'alert_marks', key: ['workspace_id', 'subject', 'event'] },
  { name: 'alert_queue', key: ['workspace_id', 'alert_order'] },
]

/**
 * Tables that a move does not copy:
 * - The usage position of each pipe, because it refers to the totals of the target.
 * - Sessions and links. Users sign in again after a move.
 * - The state of deleted pipes. None of their data is copied.
 * - Attempts and replays of ranges, because they contain positions of the old log. A replay that was not done ends.
 * - Jobs on personal data, because a cluster has none. One that was not done ends.
 * - Settings and the format, which belong to the database. The identity is set separately.
 * - Shared state of nodes.
 */
export const ownTables: readonly (keyof Tables)[] = [
  ...([
    'usage_marks',
    'sessions',
    'setup_tokens',
    'deleted_pipes',
    'lane_attempts',
    'replays',
    'privacy_jobs',
  ] as const),
  ...(['metadata_settings', 'metadata_migrations'] as const),
  ...(['cluster_nodes', 'cluster_workers', 'cluster_duties', 'pipe_owners', 'changes'] as const),
  ...(['quota_days', 'quota_rates'] as const),
]
