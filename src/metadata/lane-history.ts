/**
 * The history of the messages that each lane moved past, one row per batch, skip or loss. It is written in the
 * transaction that saves the lane's row (`lane-store.ts`): a crash leaves both or neither, and a save stays one fsync.
 *
 * Runs of a lane never overlap: its cursor only moves forward, and a rewind voids the history behind it. So the run of
 * a message is the last one that begins at or before it. `lane-records.ts` reads it.
 *
 * Attempts, counts by hour and latency, which are recorded in the same transaction, follow below.
 */
import { CompiledQuery, sql } from 'kysely'
import type { DeliveryAttempt } from '../contract/attempts.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { type LaneHour, usageCounts } from '../contract/usage.ts'
import { DurationHistogram } from '../platform/histogram.ts'
import { hourMs } from '../platform/quantities.ts'
import { holdLane } from './lane-fence.ts'
import type { LaneOwner } from './lane-ownership.ts'
import type {
  LaneCounts,
  LatencyCounts,
  LatencyOfHour,
  NumberedAttempt,
  PassedMessages,
} from './lane-state.ts'
import { type DestinationRef, normaliseId, type ParkedRow, type UsageHourRow } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

/** The most rows that one transaction removes, because saves of lanes wait for it. */
const pruneBatch = 2_000

type ParkedSlot = Pick<ParkedRow, 'destination_id' | 'stream_seq' | 'record_index'>

interface Passed {
  destinationId: string
  passed?: readonly PassedMessages[]
}

/**
 * Records the messages that lanes passed, in order. The destinations must exist. The cost is 23 µs of CPU per batch,
 * nearly all of it in SQLite. With 100 lanes that each delivered one batch a save takes 3.5 ms instead of 1.3 ms; one
 * INSERT of many rows takes the same. In a save of one lane the cost cannot be measured.
 */
export function historyRecorder(
  db: Connection,
): (trx: Connection, lanes: readonly Passed[]) => Promise<void> {
  const insert = sql`
    INSERT INTO lane_history (destination_id, first_seq, last_seq, kind, at_ms, batch_last_seq, attempts)
    VALUES (${sql.join(Array.from({ length: 7 }, () => sql`${null}`))})
    ON CONFLICT (destination_id, first_seq) DO UPDATE SET
      last_seq = excluded.last_seq, kind = excluded.kind, at_ms = excluded.at_ms,
      batch_last_seq = excluded.batch_last_seq, attempts = excluded.attempts`.compile(db).sql
  return async (trx, lanes) => {
    for (const { destinationId, passed = [] } of lanes) {
      for (const { kind, firstSeq, lastSeq, atMs, batchLastSeq, attempts } of passed) {
        if (kind === 'rewound') await voidHistory(trx, destinationId, firstSeq)
        else {
          const values = [destinationId, firstSeq, lastSeq, kind, atMs, batchLastSeq, attempts]
          await trx.executeQuery(CompiledQuery.raw(insert, values))
        }
      }
    }
  }
}

/** Removes the history from that message on. A run that began earlier is shortened and keeps its batch. */
async function voidHistory(trx: Connection, destinationId: string, fromSeq: number): Promise<void> {
  const own = trx.deleteFrom('lane_history').where('destination_id', '=', destinationId)
  await own.where('first_seq', '>=', fromSeq).execute()
  await trx
    .updateTable('lane_history')
    .set({ last_seq: fromSeq - 1 })
    .where('destination_id', '=', destinationId)
    .where('last_seq', '>=', fromSeq)
    .execute()
}

/**
 * Records that no record of a message is parked any more: a replay stored it, a user discarded it, or it was too old.
 * The outcome of a single record says nothing about the others.
 */
export async function recordOutcome(
  trx: Connection,
  { destination_id, stream_seq, record_index }: ParkedSlot,
  kind: 'delivered' | 'skipped' | 'dropped',
  atMs: number,
): Promise<void> {
  if (record_index >= 0) return
  await trx
    .updateTable('lane_history')
    .set({ kind, at_ms: atMs })
    .where('destination_id', '=', destination_id)
    .where('first_seq', '=', stream_seq)
    .where('last_seq', '=', stream_seq)
    .where('kind', 'in', ['parked', 'skipped'])
    .execute()
}

export async function forgetHistory(trx: Connection, destinationId: string): Promise<void> {
  await trx.deleteFrom('lane_history').where('destination_id', '=', destinationId).execute()
}

/** Records that the lane starts after these messages. */
export async function recordBefore(
  trx: Connection,
  destinationId: string,
  lastSeq: number,
  atMs: number,
): Promise<void> {
  const run = {
    first_seq: 1,
    last_seq: lastSeq,
    kind: 'before',
    at_ms: atMs,
    batch_last_seq: null,
    attempts: 0,
  } as const
  await trx
    .insertInto('lane_history')
    .values({ destination_id: destinationId, ...run })
    .execute()
}

/** `LaneStore.pruneHistory` */
export async function pruneHistory(
  db: Connection,
  owner: LaneOwner,
  { throughSeq, now }: { throughSeq: number; now: number },
): Promise<void> {
  const id = normaliseId(owner.destinationId)
  const oldestKept = await db
    .selectFrom('lane_history')
    .select('first_seq')
    .where('destination_id', '=', id)
    .orderBy('first_seq', 'desc')
    .offset(resourceLimits.historyRowsPerLane - 1)
    .limit(1)
    .executeTakeFirst()
  const beforeSeq = oldestKept?.first_seq ?? 0
  for (;;) {
    const removed = await inWriteTransaction(db, async (trx) => {
      if (!(await holdLane(trx, owner))) return 0
      await pruneAttempts(trx, id, now)
      const old = await trx
        .selectFrom('lane_history')
        .select(['first_seq', 'last_seq'])
        .where('destination_id', '=', id)
        .orderBy('first_seq')
        .limit(pruneBatch)
        .execute()
      const kept = old.findIndex(({ first_seq, last_seq }) => last_seq > throughSeq && first_seq >= beforeSeq)
      const gone = kept === -1 ? old : old.slice(0, kept)
      const last = gone.at(-1)
      if (last === undefined) return 0
      await trx
        .deleteFrom('lane_history')
        .where('destination_id', '=', id)
        .where('first_seq', '<=', last.first_seq)
        .execute()
      return gone.length
    })
    if (removed < pruneBatch) return
  }
}

export interface AttemptQuery {
  limit: number
  /** Only those with a smaller `attempt_no`. */
  before: number | null
  outcome: DeliveryAttempt['outcome'] | null
  /** ms since the epoch. */
  sinceMs: number | null
}

/**
 * The newest first, each as the JSON text of a `DeliveryAttempt`. `next`: `before` of the next page. Nothing of a
 * destination of another workspace.
 */
export type AttemptLog = (
  destination: DestinationRef,
  query: AttemptQuery,
) => Promise<{ texts: string[]; next: number | null }>

const { deliveredAttemptsPerLane, failedAttemptsPerLane, deliveredAttemptHours, failedAttemptHours } =
  resourceLimits

interface Attempted {
  destinationId: string
  attempts?: readonly NumberedAttempt[]
}

/**
 * Records the attempts of lanes, whose destinations must exist. The cost is 25 to 50 µs of CPU per attempt: 0.3 % of a
 * batch of 1,000 records to an HTTP endpoint, 1 to 2 % of a batch of 10.
 */
export function attemptRecorder(
  db: Connection,
): (trx: Connection, lanes: readonly Attempted[]) => Promise<void> {
  const insert = sql`
    INSERT INTO lane_attempts (destination_id, slot, attempt_no, at_ms, outcome, attempt_json)
    VALUES (${sql.join(Array.from({ length: 6 }, () => sql`${null}`))})
    ON CONFLICT (destination_id, slot) DO UPDATE SET
      attempt_no = excluded.attempt_no, at_ms = excluded.at_ms, outcome = excluded.outcome,
      attempt_json = excluded.attempt_json`.compile(db).sql
  return async (trx, lanes) => {
    for (const { destinationId, attempts = [] } of lanes) {
      for (const { numberOfOutcome, attempt } of attempts) {
        const { attempt_no, attempt_ts, outcome } = attempt
        const slot = slotOf(outcome, numberOfOutcome)
        const values = [slot, attempt_no, Date.parse(attempt_ts), outcome, JSON.stringify(attempt)]
        await trx.executeQuery(CompiledQuery.raw(insert, [destinationId, ...values]))
      }
    }
  }
}

function slotOf(outcome: DeliveryAttempt['outcome'], number: number): number {
  return outcome === 'delivered'
    ? number % deliveredAttemptsPerLane
    : deliveredAttemptsPerLane + (number % failedAttemptsPerLane)
}

export function attemptLog(db: Connection, now: () => number): AttemptLog {
  return async ({ workspaceId, destinationId }, { limit, before, outcome, sinceMs }) => {
    const oldest = oldestKept(now())
    const rows = await db
      .selectFrom('lane_attempts as attempt')
      .innerJoin('destinations', 'destinations.destination_id', 'attempt.destination_id')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .select(['attempt.attempt_no', 'attempt.attempt_json'])
      .where('attempt.destination_id', '=', normaliseId(destinationId))
      .where('pipes.workspace_id', '=', normaliseId(workspaceId))
      .where((of) =>
        of.or([
          of.and([of('outcome', '=', 'delivered'), of('at_ms', '>=', oldest.delivered)]),
          of.and([of('outcome', '=', 'failed'), of('at_ms', '>=', oldest.failed)]),
        ]),
      )
      .$if(outcome !== null, (query) => query.where('outcome', '=', outcome!))
      .$if(sinceMs !== null, (query) => query.where('at_ms', '>=', sinceMs!))
      .$if(before !== null, (query) => query.where('attempt_no', '<', before!))
      .orderBy('attempt_no', 'desc')
      .limit(limit + 1)
      .execute()
    const page = rows.slice(0, limit)
    return {
      texts: page.map(({ attempt_json }) => attempt_json),
      next: rows.length > limit ? page.at(-1)!.attempt_no : null,
    }
  }
}

/** Removes the lane's attempts that are too old to be listed. */
async function pruneAttempts(trx: Connection, destinationId: string, now: number): Promise<void> {
  const oldest = oldestKept(now)
  await trx
    .deleteFrom('lane_attempts')
    .where('destination_id', '=', normaliseId(destinationId))
    .where('at_ms', '<', oldest.delivered)
    .where((of) => of.or([of('outcome', '=', 'delivered'), of('at_ms', '<', oldest.failed)]))
    .execute()
}

function oldestKept(now: number): Record<DeliveryAttempt['outcome'], number> {
  return { delivered: now - deliveredAttemptHours * hourMs, failed: now - failedAttemptHours * hourMs }
}

/**
 * Counts by hour, of lanes and of their pipes, and the latency of each lane: how long records took from their acceptance
 * to the destination, and how long the attempts took. All are added in the transaction that saves the lane's row
 * (`lane-store.ts`): a crash leaves both or neither, only the lane's owner writes them, and a save that is repeated adds
 * nothing twice. Delivery gathers latency for some seconds first (`lane-log.ts`).
 */
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
 *
 * Adds counts to the lane's hour. Counts of a deleted destination match no row and are dropped.
 */
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
 * dropped, and do not fail the transaction. The id is in lower case. The statement is compiled once.
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
    CompiledQuery.raw(text, [...columns.map((column) => increment[column]), increment.pipe_id])
}
