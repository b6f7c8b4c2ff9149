/**
 * Counts by hour, of lanes and of their pipes, and the latency of each lane: how long records took from their acceptance
 * to the destination, and how long the attempts took. All are added in the transaction that saves the lane's row
 * (`lane-store.ts`): a crash leaves both or neither, only the lane's owner writes them, and a save that is repeated adds
 * nothing twice. Delivery gathers latency for some seconds first (`lane-log.ts`).
 */
import { CompiledQuery, sql } from 'kysely'
import { type LaneHour, usageCounts } from '../contract/usage.ts'
import { DurationHistogram } from '../platform/histogram.ts'
import type { LaneCounts, LatencyCounts, LatencyOfHour } from './lane-state.ts'
import { type DestinationRef, normaliseId, type UsageHourRow } from './tables.ts'
import type { Connection } from './transactions.ts'

interface Measured {
  destinationId: string
  latency?: readonly LatencyOfHour[]
}

/** Adds the latency of lanes, whose rows are held by the transaction and whose destinations must exist. */
export function latencyRecorder(
  db: Connection,
): (trx: Connection, lanes: readonly Measured[]) => Promise<void> {
  const upsert = sql`
    INSERT INTO lane_latency (destination_id, hour_ms, latency_json)
    VALUES (${sql.join(Array.from({ length: 3 }, () => sql`${null}`))})
    ON CONFLICT (destination_id, hour_ms) DO UPDATE SET latency_json = excluded.latency_json`.compile(db).sql
  return async (trx, lanes) => {
    for (const { destinationId, latency = [] } of lanes) {
      for (const { hourMs, counts } of latency) {
        const stored = await trx
          .selectFrom('lane_latency')
          .select('latency_json')
          .where('destination_id', '=', destinationId)
          .where('hour_ms', '=', hourMs)
          .executeTakeFirst()
        const sum = stored === undefined ? counts : sumOf([parse(stored.latency_json), counts])
        await trx.executeQuery(CompiledQuery.raw(upsert, [destinationId, hourMs, JSON.stringify(sum)]))
      }
    }
  }
}

/** The sum of any number of hours. */
export function sumOf(all: readonly LatencyCounts[]): LatencyCounts {
  const sum = (name: keyof LatencyCounts) => DurationHistogram.sum(all.map((one) => one[name])).sparse()
  return { records: sum('records'), delivered: sum('delivered'), failed: sum('failed') }
}

function parse(text: string): LatencyCounts {
  return JSON.parse(text) as LatencyCounts
}

/**
 * Returns the counts by start of hour (ms), from `firstMs` to `lastMs`, both included. Empty for a destination of
 * another workspace.
 */
export type LaneLatency = (
  destination: DestinationRef,
  firstMs: number,
  lastMs: number,
) => Promise<Map<number, LatencyCounts>>

export function laneLatency(db: Connection): LaneLatency {
  return async ({ workspaceId, destinationId }, firstMs, lastMs) => {
    const rows = await db
      .selectFrom('lane_latency as hour')
      .innerJoin('destinations', 'destinations.destination_id', 'hour.destination_id')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .select(['hour_ms', 'latency_json'])
      .where('hour.destination_id', '=', normaliseId(destinationId))
      .where('pipes.workspace_id', '=', normaliseId(workspaceId))
      .where('hour_ms', '>=', firstMs)
      .where('hour_ms', '<=', lastMs)
      .execute()
    return new Map(rows.map((row) => [Number(row.hour_ms), parse(row.latency_json)]))
  }
}

/**
 * The hourly counts of each lane. Added in the transaction that saves the lane's row (`lane-store.ts`): a crash
 * leaves both or neither.
 */

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
      destinationId,
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

/**
 * Adds counts to the pipe's hour. INSERT … SELECT from the pipe's row: counts of a deleted pipe match no row and are
 * dropped, and do not fail the transaction. The statement is compiled once.
 */
export function usageIncrement(db: Connection): (increment: UsageHourRow) => CompiledQuery {
  const columns = ['hour_ms', ...usageCounts, 'last_ingest_ms'] as const
  const text = sql`
    INSERT INTO usage_hours (pipe_id, ${sql.join(columns.map((column) => sql.ref(column)))})
    SELECT pipe_id, ${sql.join(columns.map(() => sql`CAST(${null} AS bigint)`))} FROM pipes WHERE pipe_id = ${null}
    ON CONFLICT (pipe_id, hour_ms) DO UPDATE SET
      ${sql.join(usageCounts.map((column) => sql`${sql.ref(column)} = usage_hours.${sql.ref(column)} + excluded.${sql.ref(column)}`))},
      last_ingest_ms = CASE
        WHEN usage_hours.last_ingest_ms IS NULL OR excluded.last_ingest_ms > usage_hours.last_ingest_ms
        THEN excluded.last_ingest_ms ELSE usage_hours.last_ingest_ms END`.compile(db).sql
  return (increment) =>
    CompiledQuery.raw(text, [...columns.map((column) => increment[column]), normaliseId(increment.pipe_id)])
}
