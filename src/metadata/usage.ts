/**
 * Usage: hourly roll-ups per pipe, and per lane (`lane-history.ts`). Ingest adds the records that it accepted and
 * rejected. Lanes add the records that they delivered, together with their state (`lane-store.ts`). Nothing is counted
 * by reading messages.
 *
 * A mark is the part of a pipe's running totals in the buffer that the roll-ups include. Roll-ups and marks change in
 * one transaction. After a crash, the buffer's totals minus the mark are still to be added.
 */
import { setImmediate } from 'node:timers/promises'
import { CompiledQuery, sql } from 'kysely'
import type { PipeUsage } from '../contract/pipe.ts'
import { addMismatches, type Mismatches } from '../contract/schema-words.ts'
import { addRejectedHooks, type RejectedHooks } from '../contract/source-words.ts'
import { noUsageCounts, type UsageCounts, type UsageHour, usageCounts } from '../contract/usage.ts'
import { type LaneHours, laneHours, usageIncrement } from './lane-history.ts'
import { addHooks, hooksByPipe, rejectedHooksOf } from './rejected-hooks.ts'
import { addMismatchedRecords, mismatchesByPipe } from './schema-mismatches.ts'
import { isoTime, normaliseId, type PipeRef, type UsageHourRow, type UsageMarkRow } from './tables.ts'
import { type Connection, inRowTransaction, inWriteTransaction, UnknownWrite } from './transactions.ts'

/** The usage that roll-ups contain: everything but the backlog. */
export type RolledUpUsage = Omit<PipeUsage, 'pending_messages' | 'pending_bytes' | 'blocked_lanes'>

/** The counts of ingest for one pipe since the last flush, and the time of its last request. */
export interface IngestCounts {
  pipeId: string
  /** Start of the UTC hour, ms. */
  hourMs: number
  requests: number
  records: number
  bytes: number
  rejected: number
  /** The rejected requests that were webhooks, by reason. Absent: there were none. */
  rejectedHooks?: RejectedHooks
  /** Records that did not match the schema, by result. Absent: there were none. */
  mismatches?: Mismatches
  lastIngestMs: number | null
}

/** The part of a pipe's running totals that the roll-ups include. The difference after a crash is added at start. */
export interface UsageMark {
  pipeId: string
  messages: number
  records: number
  bytes: number
}

export interface UsageStore {
  /**
   * Returns the sums since `sinceMs` (whole hours) and the time of the last request, however long ago, by pipe. Pipes
   * without either are left out.
   */
  byPipe(workspaceId: string, sinceMs: number): Promise<Record<string, RolledUpUsage>>
  /**
   * Returns sums by start of hour (ms), from `firstMs` to `lastMs`, both included, over those pipes or the whole
   * workspace. Hours without usage and pipes of another workspace are left out.
   */
  byHour(
    workspaceId: string,
    pipeIds: readonly string[] | null,
    firstMs: number,
    lastMs: number,
  ): Promise<Map<number, Omit<UsageHour, 'hour_ts'>>>
  readonly ofLane: LaneHours
  /** Returns the webhooks of the pipe that were rejected from `firstMs` to `lastMs`, both included. */
  rejectedHooks(pipe: PipeRef, firstMs: number, lastMs: number): Promise<RejectedHooks>
  /** Returns the records of the pipe that did not match its schema, in the same hours. */
  mismatches(pipe: PipeRef, firstMs: number, lastMs: number): Promise<Mismatches>
  /**
   * Adds counts of ingest. `marks` are the pipes' running totals that the roll-ups then include. After a rejection, the
   * next call must pass the same counts plus newer ones. Counts are then added once, even if the outcome of the first
   * call was unknown.
   */
  addIngest(counts: readonly IngestCounts[], marks: readonly UsageMark[]): Promise<void>
  /**
   * Adds to the hour the difference between these totals and the marks, and updates the marks. Each message is counted
   * once, even if several callers count with different totals. Totals below the mark add nothing.
   */
  countUpTo(totals: readonly UsageMark[], hourMs: number): Promise<void>
  marks(): Promise<UsageMark[]>
  /**
   * Returns the records and bytes accepted since the start of the UTC day, by pipe: the initial values of the daily
   * quotas.
   */
  ingestedSince(sinceMs: number): Promise<Record<string, { records: number; bytes: number }>>
  /** Removes hours that began before this time, except the newest one with a request of each pipe. */
  prune(beforeMs: number): Promise<void>
}

const hourLength = 3_600_000
const dayLength = 24 * hourLength

export function usage(db: Connection): UsageStore {
  const addToHour = usageIncrement(db)
  const setMark = markUpsert(db)
  const unknown = new UnknownWrite<readonly IngestCounts[]>()
  return {
    byPipe: (workspaceId, sinceMs) => sumsByPipe(db, normaliseId(workspaceId), sinceMs),

    async byHour(workspaceId, pipeIds, firstMs, lastMs) {
      const found: Awaited<ReturnType<UsageStore['byHour']>> = new Map()
      // One day at a time: a day of 1,000 pipes takes 12 ms of the main thread, a week would block it for 75 ms.
      for (let fromMs = firstMs; fromMs <= lastMs; fromMs += dayLength) {
        if (fromMs > firstMs) await setImmediate()
        const toMs = Math.min(fromMs + dayLength - hourLength, lastMs)
        for (const { hour_ms, ...sums } of await sumsByHour(db, workspaceId, pipeIds, { fromMs, toMs }))
          found.set(hour_ms, sums)
      }
      return found
    },

    ofLane: laneHours(db),

    rejectedHooks: (pipe, firstMs, lastMs) => rejectedHooksOf(db, pipe, firstMs, lastMs),

    async mismatches({ workspaceId, pipeId }, fromMs, toMs) {
      const found = await mismatchesByPipe(db, workspaceId, { fromMs, toMs, pipeId })
      return found.get(normaliseId(pipeId)) ?? {}
    },

    async addIngest(given, marks) {
      const counts = without(given, (await unknown.stored()) ?? [])
      if (counts.length === 0 && marks.length === 0) return
      const adding = inRowTransaction(db, async (trx) => {
        for (const count of inOrder(counts)) {
          await trx.executeQuery(addToHour(hourOf(count)))
          await addHooks(trx, count)
          await addMismatchedRecords(trx, count)
        }
        for (const { pipeId, ...totals } of inOrder(marks))
          await trx.executeQuery(setMark({ pipe_id: pipeId, ...totals }))
      })
      await adding.catch((error: unknown) => unknown.note(error, counts))
    },

    async countUpTo(totals, hourMs) {
      if (totals.length === 0) return
      await inWriteTransaction(db, async (trx) => {
        for (const { pipeId, ...to } of totals) {
          const marked = await trx
            .selectFrom('usage_marks')
            .select(['messages', 'records', 'bytes'])
            .where('pipe_id', '=', normaliseId(pipeId))
            .executeTakeFirst()
          const requests = to.messages - (marked?.messages ?? 0)
          if (requests <= 0) continue
          await trx.executeQuery(
            addToHour({
              ...noUsageCounts,
              pipe_id: normaliseId(pipeId),
              hour_ms: hourMs,
              ingest_requests: requests,
              ingest_records: Math.max(0, to.records - (marked?.records ?? 0)),
              ingest_bytes: Math.max(0, to.bytes - (marked?.bytes ?? 0)),
              last_ingest_ms: null,
            }),
          )
          await trx.executeQuery(setMark({ pipe_id: pipeId, ...to }))
        }
      })
    },

    async marks() {
      const marks = db.selectFrom('usage_marks').orderBy('pipe_id')
      return await marks.select(['pipe_id as pipeId', 'messages', 'records', 'bytes']).execute()
    },

    ingestedSince: (sinceMs) => ingestedSince(db, sinceMs),

    prune: (beforeMs) => inWriteTransaction(db, (trx) => prune(trx, beforeMs)),
  }
}

function hourOf(count: IngestCounts): UsageHourRow {
  return {
    ...noUsageCounts,
    pipe_id: normaliseId(count.pipeId),
    hour_ms: count.hourMs,
    ingest_requests: count.requests,
    ingest_records: count.records,
    ingest_bytes: count.bytes,
    rejected_requests: count.rejected,
    last_ingest_ms: count.lastIngestMs,
  }
}

async function ingestedSince(db: Connection, sinceMs: number): ReturnType<UsageStore['ingestedSince']> {
  const rows = await db
    .selectFrom('usage_hours')
    .select('pipe_id')
    .select(({ fn }) => [
      fn.sum<number>('ingest_records').as('records'),
      fn.sum<number>('ingest_bytes').as('bytes'),
    ])
    .where('hour_ms', '>=', sinceMs)
    // Hours of a later day exist if the clock was ahead for a while.
    .where('hour_ms', '<', sinceMs + dayLength)
    .groupBy('pipe_id')
    .execute()
  return Object.fromEntries(rows.map(({ pipe_id, ...sums }) => [pipe_id, sums]))
}

async function prune(trx: Connection, beforeMs: number): Promise<void> {
  await trx.deleteFrom('lane_hours').where('hour_ms', '<', beforeMs).execute()
  await trx.deleteFrom('lane_latency').where('hour_ms', '<', beforeMs).execute()
  await trx.deleteFrom('rejected_hooks').where('hour_ms', '<', beforeMs).execute()
  await trx.deleteFrom('schema_mismatches').where('hour_ms', '<', beforeMs).execute()
  await trx
    .deleteFrom('usage_hours')
    .where('hour_ms', '<', beforeMs)
    // The newest hour with a request is kept: it holds the time of the last request.
    .where((eb) =>
      eb.or([
        eb('last_ingest_ms', 'is', null),
        eb.exists(
          eb
            .selectFrom('usage_hours as newer')
            .select('newer.pipe_id')
            .whereRef('newer.pipe_id', '=', 'usage_hours.pipe_id')
            .whereRef('newer.last_ingest_ms', '>', 'usage_hours.last_ingest_ms'),
        ),
      ]),
    )
    .execute()
}

/** Sorts by key, so that two nodes that update the same rows wait at the first one and do not deadlock. */
function inOrder<T extends { pipeId: string; hourMs?: number }>(of: readonly T[]): T[] {
  const keyOf = ({ pipeId, hourMs = 0 }: T) => `${normaliseId(pipeId)}/${hourMs}`
  return of.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
}

/** Counts of a write that was not known to be stored, and was, are subtracted. The caller adds them again with newer counts. */
function without(counts: readonly IngestCounts[], stored: readonly IngestCounts[]): IngestCounts[] {
  return counts.map((count) => {
    const known = stored.find((one) => one.pipeId === count.pipeId && one.hourMs === count.hourMs)
    if (known === undefined) return count
    return {
      ...count,
      requests: count.requests - known.requests,
      records: count.records - known.records,
      bytes: count.bytes - known.bytes,
      rejected: count.rejected - known.rejected,
      rejectedHooks: withoutHooks(count.rejectedHooks, known.rejectedHooks),
      mismatches: withoutMismatches(count.mismatches, known.mismatches),
    }
  })
}

function withoutMismatches(mismatches: Mismatches = {}, known: Mismatches = {}): Mismatches {
  const left = { ...mismatches }
  addMismatches(left, known, -1)
  return left
}

function withoutHooks(hooks: RejectedHooks = {}, known: RejectedHooks = {}): RejectedHooks {
  const left = { ...hooks }
  addRejectedHooks(left, known, -1)
  return left
}

/** Starts at the workspace's pipes and reads their hours by key, so the rows of other workspaces cost nothing. */
function sumsByHour(
  db: Connection,
  workspaceId: string,
  pipeIds: readonly string[] | null,
  { fromMs, toMs }: { fromMs: number; toMs: number },
) {
  const ofWorkspace = db
    .selectFrom('pipes')
    .innerJoin('usage_hours as hour', 'hour.pipe_id', 'pipes.pipe_id')
    .select('hour.hour_ms')
    .select((eb) => usageCounts.map((name) => eb.fn.sum<number>(`hour.${name}`).as(name)))
    .where('pipes.workspace_id', '=', normaliseId(workspaceId))
    .where('hour.hour_ms', '>=', fromMs)
    // Later hours exist if the clock was ahead for a while.
    .where('hour.hour_ms', '<=', toMs)
    .groupBy('hour.hour_ms')
  const wanted =
    pipeIds === null ? ofWorkspace : ofWorkspace.where('pipes.pipe_id', 'in', pipeIds.map(normaliseId))
  return wanted.execute()
}

/** Returns the sums since that time of each pipe of the workspace that has any. */
export async function countsByPipe(
  db: Connection,
  workspaceId: string,
  sinceMs: number,
): Promise<Map<string, UsageCounts>> {
  const rows = await db
    .selectFrom('pipes')
    .innerJoin('usage_hours as hour', 'hour.pipe_id', 'pipes.pipe_id')
    .select('pipes.pipe_id')
    .select((eb) => usageCounts.map((name) => eb.fn.sum<number>(`hour.${name}`).as(name)))
    .where('pipes.workspace_id', '=', workspaceId)
    .where('hour.hour_ms', '>=', sinceMs)
    .groupBy('pipes.pipe_id')
    .execute()
  return new Map(rows.map(({ pipe_id, ...sums }) => [pipe_id, sums]))
}

async function sumsByPipe(
  db: Connection,
  workspaceId: string,
  sinceMs: number,
): Promise<Record<string, RolledUpUsage>> {
  const counts = await countsByPipe(db, workspaceId, sinceMs)
  // Not limited to the window, so that the last request is known after a quiet day as well.
  const last = await db
    .selectFrom('usage_hours as hour')
    .innerJoin('pipes', 'pipes.pipe_id', 'hour.pipe_id')
    .select((eb) => ['hour.pipe_id', eb.fn.max('hour.last_ingest_ms').as('last_ingest_ms')])
    .where('pipes.workspace_id', '=', workspaceId)
    .where('hour.last_ingest_ms', 'is not', null)
    .groupBy('hour.pipe_id')
    .execute()
  const lastIngest = new Map(last.map((row) => [row.pipe_id, isoTime(row.last_ingest_ms ?? 0)]))
  const hooks = await hooksByPipe(db, workspaceId, { fromMs: sinceMs, toMs: null })
  const mismatches = await mismatchesByPipe(db, workspaceId, { fromMs: sinceMs, toMs: null })
  const usage: Record<string, RolledUpUsage> = {}
  for (const pipeId of new Set([
    ...counts.keys(),
    ...lastIngest.keys(),
    ...hooks.keys(),
    ...mismatches.keys(),
  ]))
    usage[pipeId] = {
      ...(counts.get(pipeId) ?? noUsageCounts),
      last_ingest_ts: lastIngest.get(pipeId) ?? null,
      rejected_hooks: hooks.get(pipeId) ?? {},
      schema_mismatches: mismatches.get(pipeId) ?? {},
    }
  return usage
}

/** Sets the pipe's mark. A mark of a deleted pipe is dropped, as above. */
function markUpsert(db: Connection): (mark: UsageMarkRow) => CompiledQuery {
  const text = sql`
    INSERT INTO usage_marks (pipe_id, messages, records, bytes)
    SELECT pipe_id, CAST(${null} AS bigint), CAST(${null} AS bigint), CAST(${null} AS bigint)
    FROM pipes WHERE pipe_id = ${null}
    ON CONFLICT (pipe_id) DO UPDATE SET
      messages = excluded.messages, records = excluded.records, bytes = excluded.bytes`.compile(db).sql
  return (mark) =>
    CompiledQuery.raw(text, [mark.messages, mark.records, mark.bytes, normaliseId(mark.pipe_id)])
}
