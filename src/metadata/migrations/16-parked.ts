/**
 * Migration 16: parked records, and whether a destination parks. The records' text is in a table of its own, so that listing and
 * changing a row do not touch it; sums are kept for each destination, so that asking how much is parked is no scan.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function parked(trx: Transaction<Tables>): Promise<void> {
  await trx.schema
    .alterTable('destinations')
    .addColumn('on_permanent_error', 'text', (column) => column.notNull().defaultTo('block'))
    .execute()
  await trx.schema
    .createTable('parked')
    .addColumn('parked_id', 'text', (column) => column.primaryKey())
    .addColumn('destination_id', 'text', (column) => column.notNull())
    .addColumn('msg_id', 'text', (column) => column.notNull())
    .addColumn('stream_seq', 'bigint', (column) => column.notNull())
    // -1: the message. NULLs would be distinct in the key below.
    .addColumn('record_index', 'bigint', (column) => column.notNull())
    .addColumn('first_index', 'bigint', (column) => column.notNull())
    .addColumn('received_ms', 'bigint', (column) => column.notNull())
    .addColumn('parked_ms', 'bigint', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('error_code', 'text', (column) => column.notNull())
    .addColumn('error_message', 'text', (column) => column.notNull())
    .addColumn('error_column', 'text')
    .addColumn('error_value', 'text')
    .addColumn('history', 'text', (column) => column.notNull())
    .addColumn('attempts', 'bigint', (column) => column.notNull())
    .addColumn('records_count', 'bigint', (column) => column.notNull())
    .addColumn('body_bytes', 'bigint', (column) => column.notNull())
    .addColumn('generation', 'bigint', (column) => column.notNull())
    .addColumn('is_edited', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('is_replaying', 'integer', (column) => column.notNull().defaultTo(0))
    .addColumn('replays', 'bigint', (column) => column.notNull().defaultTo(0))
    .addColumn('replay_no', 'bigint')
    .addUniqueConstraint('parked_record', ['destination_id', 'msg_id', 'record_index'])
    .addForeignKeyConstraint(
      'parked_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createIndex('parked_in_order')
    .on('parked')
    .columns(['destination_id', 'stream_seq', 'record_index'])
    .execute()
  await trx.schema
    .createIndex('parked_replays')
    .on('parked')
    .columns(['destination_id', 'is_replaying', 'stream_seq', 'record_index'])
    .execute()
  await trx.schema.createIndex('parked_by_age').on('parked').columns(['is_replaying', 'parked_ms']).execute()
  await trx.schema
    .createTable('parked_bodies')
    .addColumn('parked_id', 'text', (column) => column.primaryKey())
    .addColumn('body', 'text', (column) => column.notNull())
    .addForeignKeyConstraint('parked_bodies_parked', ['parked_id'], 'parked', ['parked_id'], (key) =>
      key.onDelete('cascade'),
    )
    .execute()
  await trx.schema
    .createTable('parked_sums')
    .addColumn('destination_id', 'text', (column) => column.primaryKey())
    .addColumn('rows', 'bigint', (column) => column.notNull())
    .addColumn('records', 'bigint', (column) => column.notNull())
    .addColumn('body_bytes', 'bigint', (column) => column.notNull())
    .addColumn('dropped_records', 'bigint', (column) => column.notNull())
    .addColumn('last_replay_no', 'bigint', (column) => column.notNull())
    .addColumn('begun_parked_id', 'text')
    .addForeignKeyConstraint(
      'parked_sums_destination',
      ['destination_id'],
      'destinations',
      ['destination_id'],
      (key) => key.onDelete('cascade'),
    )
    .execute()
}
