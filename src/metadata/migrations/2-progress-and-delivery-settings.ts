/**
 * Migration 2: what a lane remembers of its progress (records stored of a batch, the batch size that worked, the epoch
 * of its owner), and a destination's name and delivery settings of its own. The buffer's running totals at a lane's
 * cursor become an opaque mark, a JSON text that the buffer alone reads.
 */
import { sql, type Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function progressAndDeliverySettings(trx: Transaction<Tables>): Promise<void> {
  // One column per statement: SQLite's ALTER TABLE takes no more.
  const lanes = () => trx.schema.alterTable('lanes')
  await lanes().renameColumn('suspect_last_seq', 'bisect_last_seq').execute()
  await lanes()
    .addColumn('record_offset', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
  await lanes().addColumn('size_limit_records', 'bigint').execute()
  await lanes()
    .addColumn('size_successes', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
  await lanes()
    .addColumn('owner_epoch', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
  await lanes().addColumn('cursor_mark', 'text').execute()
  await sql`
    UPDATE lanes SET cursor_mark =
      '{"messages":' || CAST(cursor_messages AS text) ||
      ',"records":' || CAST(cursor_records AS text) ||
      ',"bytes":' || CAST(cursor_bytes AS text) || '}'
    WHERE cursor_messages IS NOT NULL`.execute(trx)
  for (const column of ['cursor_messages', 'cursor_records', 'cursor_bytes']) {
    await lanes().dropColumn(column).execute()
  }

  const destinations = () => trx.schema.alterTable('destinations')
  await destinations().addColumn('destination_name', 'text').execute()
  for (const column of ['flush_max_records', 'flush_max_bytes', 'flush_max_seconds']) {
    await destinations().addColumn(column, 'bigint').execute()
  }
  await destinations().addColumn('rate_requests_per_second', 'double precision').execute()
  await destinations().addColumn('concurrency', 'integer').execute()
  // Rows without a name never collide: NULLs are distinct.
  await trx.schema
    .createIndex('destinations_name')
    .unique()
    .on('destinations')
    .columns(['pipe_id', 'destination_name'])
    .execute()
}
