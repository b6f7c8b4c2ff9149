/**
 * The hourly counts of each lane. Added in the transaction that saves the lane's row (`lane-store.ts`): a crash
 * leaves both or neither.
 */
import { CompiledQuery, sql } from 'kysely'
import type { LaneHour } from '../contract/usage.ts'
import type { LaneCounts } from './lane-state.ts'
import { type DestinationRef, normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

/** Adds counts to the lane's hour. Counts of a deleted destination match no row and are dropped. */
export function laneHourIncrement(db: Connection): (counts: LaneCounts, hourMs: number) => CompiledQuery {
  const text = sql`
    INSERT INTO lane_hours (destination_id, hour_ms, delivered_records, failed_attempts, skipped_records, filtered_records)
    SELECT destination_id, ${sql.join([1, 2, 3, 4, 5].map(() => sql`CAST(${null} AS bigint)`))}
    FROM destinations WHERE destination_id = ${null}
    ON CONFLICT (destination_id, hour_ms) DO UPDATE SET
      delivered_records = lane_hours.delivered_records + excluded.delivered_records,
      failed_attempts = lane_hours.failed_attempts + excluded.failed_attempts,
      skipped_records = lane_hours.skipped_records + excluded.skipped_records,
      filtered_records = lane_hours.filtered_records + excluded.filtered_records`.compile(db).sql
  return ({ destinationId, deliveredRecords, failedAttempts, skippedRecords, filteredRecords }, hourMs) =>
    CompiledQuery.raw(text, [
      ...[hourMs, deliveredRecords, failedAttempts, skippedRecords, filteredRecords],
      normaliseId(destinationId),
    ])
}

/**
 * Returns counts by start of hour (ms), from `firstMs` to `lastMs`, both included. Empty for a destination of another
 * workspace.
 */
export type LaneHours = (
  destination: DestinationRef,
  firstMs: number,
  lastMs: number,
) => Promise<Map<number, Omit<LaneHour, 'hour_ts'>>>

export function laneHours(db: Connection): LaneHours {
  return async ({ workspaceId, destinationId }, firstMs, lastMs) => {
    const rows = await db
      .selectFrom('lane_hours as hour')
      .innerJoin('destinations', 'destinations.destination_id', 'hour.destination_id')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .select(['hour_ms', 'delivered_records', 'failed_attempts', 'skipped_records', 'filtered_records'])
      .where('hour.destination_id', '=', normaliseId(destinationId))
      .where('pipes.workspace_id', '=', normaliseId(workspaceId))
      .where('hour_ms', '>=', firstMs)
      // Later hours exist if the clock was ahead for a while.
      .where('hour_ms', '<=', lastMs)
      .execute()
    return new Map(rows.map(({ hour_ms, ...counts }) => [hour_ms, counts]))
  }
}
