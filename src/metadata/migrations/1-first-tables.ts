/** Migration 1: the tables of the first version. Released: never changed (the test of migrations holds its hash). */
import { type CreateTableBuilder, sql, type Transaction } from 'kysely'
import type { Tables } from '../database.ts'

/** A table column: `name: type`, not null unless the type ends in `?`. */
type ColumnList = Record<string, 'text' | 'text?' | 'bigint' | 'bigint?' | 'integer'>

function withColumns(
  table: CreateTableBuilder<string, never>,
  columns: ColumnList,
): CreateTableBuilder<string, string> {
  let built: CreateTableBuilder<string, string> = table
  for (const [name, type] of Object.entries(columns)) {
    const dataType = type === 'integer' ? 'integer' : type.startsWith('text') ? 'text' : 'bigint'
    built = built.addColumn(name, dataType, (column) => (type.endsWith('?') ? column : column.notNull()))
  }
  return built
}

export async function firstTables(trx: Transaction<Tables>): Promise<void> {
  const table = (name: string, columns: ColumnList) => withColumns(trx.schema.createTable(name), columns)

  await table('metadata_settings', { name: 'text', value: 'text' })
    .addPrimaryKeyConstraint('metadata_settings_key', ['name'])
    .execute()

  await table('workspaces', {
    workspace_id: 'text',
    workspace_name: 'text',
    workspace_created_ms: 'bigint',
    creation_order: 'bigint',
  })
    .addPrimaryKeyConstraint('workspaces_key', ['workspace_id'])
    .addUniqueConstraint('workspaces_name', ['workspace_name'])
    .execute()

  await table('api_keys', {
    api_key_id: 'text',
    workspace_id: 'text',
    api_key_name: 'text',
    api_key_prefix: 'text',
    api_key_hash: 'text',
    api_key_status: 'text',
    api_key_created_ms: 'bigint',
    creation_order: 'bigint',
  })
    .addPrimaryKeyConstraint('api_keys_key', ['api_key_id'])
    .addUniqueConstraint('api_keys_hash', ['api_key_hash'])
    .addForeignKeyConstraint('api_keys_workspace', ['workspace_id'], 'workspaces', ['workspace_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  // A revoked key keeps its row and frees its name.
  await trx.schema
    .createIndex('api_keys_active_name')
    .unique()
    .on('api_keys')
    .columns(['workspace_id', 'api_key_name'])
    .where(sql.ref('api_key_status'), '=', sql.lit('active'))
    .execute()

  await table('pipes', {
    pipe_id: 'text',
    workspace_id: 'text',
    pipe_name: 'text',
    pipe_description: 'text',
    pipe_status: 'text',
    pipe_add_ingest_ts: 'integer',
    pipe_add_ingest_ip: 'integer',
    pipe_ingest_ts_field: 'text',
    pipe_ingest_ip_field: 'text',
    pipe_ingest_geo_country_field: 'text?',
    pipe_ingest_geo_region_field: 'text?',
    pipe_ingest_geo_city_field: 'text?',
    pipe_ingest_geo_postal_field: 'text?',
    pipe_ingest_geo_latitude_field: 'text?',
    pipe_ingest_geo_longitude_field: 'text?',
    pipe_ingest_geo_accuracy_radius_field: 'text?',
    pipe_api_key_required: 'integer',
    pipe_allow_any_browser_origin: 'integer',
    pipe_created_ms: 'bigint',
    pipe_updated_ms: 'bigint',
    creation_order: 'bigint',
  })
    .addPrimaryKeyConstraint('pipes_key', ['pipe_id'])
    .addUniqueConstraint('pipes_name', ['workspace_id', 'pipe_name'])
    .addForeignKeyConstraint('pipes_workspace', ['workspace_id'], 'workspaces', ['workspace_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()

  const ofPipe = (name: string, columns: ColumnList) =>
    table(name, columns).addForeignKeyConstraint(`${name}_pipe`, ['pipe_id'], 'pipes', ['pipe_id'], (key) =>
      key.onDelete('cascade'),
    )
  const ofDestination = (name: string, columns: ColumnList) =>
    table(name, columns).addForeignKeyConstraint(
      `${name}_destination`,
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )

  await ofPipe('pipe_limits', {
    pipe_id: 'text',
    pl_ingest_max_records_per_request: 'bigint',
    pl_ingest_max_records_per_second: 'bigint',
    pl_ingest_max_records_per_day: 'bigint',
    pl_ingest_max_bytes_per_day: 'bigint?',
    pl_delivery_max_records_per_flush: 'bigint',
    pl_delivery_max_bytes_per_flush: 'bigint',
    pl_delivery_max_seconds_per_flush: 'bigint',
  })
    .addPrimaryKeyConstraint('pipe_limits_key', ['pipe_id'])
    .execute()

  await ofPipe('pipe_allowed_origins', {
    pipe_allowed_origin_id: 'text',
    pipe_id: 'text',
    origin_domain: 'text',
    origin_key: 'text',
    creation_order: 'bigint',
  })
    .addPrimaryKeyConstraint('pipe_allowed_origins_key', ['pipe_allowed_origin_id'])
    .addUniqueConstraint('pipe_allowed_origins_origin', ['pipe_id', 'origin_key'])
    .execute()

  await ofPipe('destinations', {
    destination_id: 'text',
    pipe_id: 'text',
    destination_type: 'text',
    destination_status: 'text',
    destination_max_retry_seconds: 'bigint',
    destination_config: 'text',
    destination_created_ms: 'bigint',
    destination_updated_ms: 'bigint',
    creation_order: 'bigint',
  })
    .addPrimaryKeyConstraint('destinations_key', ['destination_id'])
    .execute()
  await trx.schema.createIndex('destinations_of_pipe').on('destinations').columns(['pipe_id']).execute()

  await ofDestination('destination_columns', {
    destination_id: 'text',
    position: 'integer',
    column_name: 'text',
    column_type: 'text',
    source_field: 'text?',
    semantic_role: 'text?',
    nullable: 'integer',
  })
    .addPrimaryKeyConstraint('destination_columns_key', ['destination_id', 'position'])
    .execute()

  await ofDestination('lanes', {
    destination_id: 'text',
    cursor_seq: 'bigint',
    cursor_messages: 'bigint?',
    cursor_records: 'bigint?',
    cursor_bytes: 'bigint?',
    batch_first_seq: 'bigint?',
    batch_last_seq: 'bigint?',
    suspect_last_seq: 'bigint?',
    attempts: 'bigint',
    first_failed_ms: 'bigint?',
    next_attempt_ms: 'bigint?',
    blocking_msg_id: 'text?',
    error_class: 'text?',
    error_code: 'text?',
    error_message: 'text?',
    last_delivered_ms: 'bigint?',
    delivered_records: 'bigint',
    skipped_messages: 'bigint',
    dropped_messages: 'bigint',
    lease_msg_id: 'text?',
    lease_until_ms: 'bigint?',
  })
    .addPrimaryKeyConstraint('lanes_key', ['destination_id'])
    .execute()

  await ofPipe('usage_hours', {
    pipe_id: 'text',
    hour_ms: 'bigint',
    ingest_requests: 'bigint',
    ingest_records: 'bigint',
    ingest_bytes: 'bigint',
    rejected_requests: 'bigint',
    delivered_records: 'bigint',
    failed_attempts: 'bigint',
    skipped_records: 'bigint',
    last_ingest_ms: 'bigint?',
  })
    .addPrimaryKeyConstraint('usage_hours_key', ['pipe_id', 'hour_ms'])
    .execute()
  await trx.schema.createIndex('usage_hours_by_hour').on('usage_hours').columns(['hour_ms']).execute()

  await ofPipe('usage_marks', { pipe_id: 'text', messages: 'bigint', records: 'bigint', bytes: 'bigint' })
    .addPrimaryKeyConstraint('usage_marks_key', ['pipe_id'])
    .execute()
}
