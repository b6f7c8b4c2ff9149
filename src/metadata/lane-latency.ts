/**
 * The latency of each lane by hour: how long records took from their acceptance to the destination, and how long the
 * attempts took. Added in a transaction that saves the lane's row (`lane-store.ts`), so only the lane's owner writes it,
 * and a save that is repeated adds nothing twice. Delivery gathers it for some seconds first (`lane-latency.ts` there).
 */
import { CompiledQuery, sql } from 'kysely'
import { DurationHistogram, type SparseCounts } from '../platform/duration-histogram.ts'
import { type DestinationRef, normaliseId } from './tables.ts'
import type { Connection } from './transactions.ts'

export interface LatencyCounts {
  /** Records, by the time from acceptance to the destination. */
  records: SparseCounts
  /** Attempts by duration. */
  delivered: SparseCounts
  failed: SparseCounts
}

export interface LatencyOfHour {
  /** Start of the UTC hour, ms. */
  hourMs: number
  counts: LatencyCounts
}

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
      const id = normaliseId(destinationId)
      for (const { hourMs, counts } of latency) {
        const stored = await trx
          .selectFrom('lane_latency')
          .select('latency_json')
          .where('destination_id', '=', id)
          .where('hour_ms', '=', hourMs)
          .executeTakeFirst()
        const sum = stored === undefined ? counts : sumOf([parse(stored.latency_json), counts])
        await trx.executeQuery(CompiledQuery.raw(upsert, [id, hourMs, JSON.stringify(sum)]))
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
