/**
 * Usage: hourly roll-ups plus the counts that ingest has not written yet. It is shown together with the backlogs of
 * the lanes as `usage_by_pipe`, or by hour. It never scans messages.
 */
import type { PipeCounters } from '../../contract/overview.ts'
import { type PipeUsage, usageStatsWindowHours } from '../../contract/pipe.ts'
import { addMismatches, type Mismatches } from '../../contract/schema-words.ts'
import { addRejectedHooks, type RejectedHooks } from '../../contract/source-words.ts'
import {
  type LaneByHour,
  noLaneCounts,
  noUsageCounts,
  type PipeUsageByHour,
  type UsageByHour,
  usageHours,
} from '../../contract/usage.ts'
import { isForPipe } from '../../ingest/admission.ts'
import { isoTime, type PipeRef } from '../../metadata/tables.ts'
import type { IngestCounts } from '../../metadata/usage.ts'
import { hourMs } from '../../platform/quantities.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination, requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'now' | 'pendingUsage'>

export function usageUseCases(deps: Deps) {
  const { metadata } = deps
  return {
    /** Only the pipes that the caller has access to are counted. */
    async getUsage({ principal: { workspaceId, pipeIds }, query }: Call<'getUsage'>): Promise<UsageByHour> {
      const pipes = await metadata.pipes.list(workspaceId)
      const own = new Set(pipes.map((pipe) => pipe.pipe_id).filter((id) => isForPipe({ pipeIds }, id)))
      const asked = pipeIds === null ? null : [...own]
      return byHour(deps, workspaceId, { asked, pipeIds: own }, query)
    },

    async getPipeUsage({
      principal: { workspaceId },
      path,
      query,
    }: Call<'getPipeUsage'>): Promise<PipeUsageByHour> {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      const pipe = { workspaceId, pipeId: pipe_id }
      const times = hourTimes(deps.now(), query)
      const rejected_hooks = await rejectedHooks(deps, pipe, times)
      const schema_mismatches = await schemaMismatches(deps, pipe, times)
      const counted = await byHour(
        deps,
        workspaceId,
        { asked: [pipe_id], pipeIds: new Set([pipe_id]) },
        query,
      )
      return { ...counted, rejected_hooks, schema_mismatches }
    },

    async getDestinationUsage({ principal, path, query }: Call<'getDestinationUsage'>): Promise<LaneByHour> {
      const { workspaceId } = principal
      const { destination_id: id } = await requireDestination(metadata, workspaceId, path)
      const times = hourTimes(deps.now(), query)
      const stored = await metadata.usage.ofLane(
        { workspaceId, destinationId: id },
        times[0] ?? 0,
        times.at(-1) ?? 0,
      )
      return {
        hours: times.map((atMs) => ({ hour_ts: isoTime(atMs), ...noLaneCounts, ...stored.get(atMs) })),
      }
    },
  }
}

async function schemaMismatches(deps: Deps, pipe: PipeRef, times: readonly number[]): Promise<Mismatches> {
  const pending = pendingOf(deps, pipe, times)
  const sum = { ...(await deps.metadata.usage.mismatches(pipe, times[0] ?? 0, times.at(-1) ?? 0)) }
  for (const counts of pending) addMismatches(sum, counts.mismatches ?? {})
  return sum
}

/** Must be read before the roll-ups, as in `byHour`. */
function pendingOf({ pendingUsage }: Deps, pipe: PipeRef, times: readonly number[]): IngestCounts[] {
  const [firstMs, lastMs] = [times[0] ?? 0, times.at(-1) ?? 0]
  return (pendingUsage?.() ?? []).filter(
    ({ pipeId, hourMs: atMs }) => pipeId === pipe.pipeId && atMs >= firstMs && atMs <= lastMs,
  )
}

async function rejectedHooks(deps: Deps, pipe: PipeRef, times: readonly number[]): Promise<RejectedHooks> {
  const [firstMs, lastMs] = [times[0] ?? 0, times.at(-1) ?? 0]
  const { metadata } = deps
  const pending = pendingOf(deps, pipe, times)
  const sum = { ...(await metadata.usage.rejectedHooks(pipe, firstMs, lastMs)) }
  for (const counts of pending) addRejectedHooks(sum, counts.rejectedHooks ?? {})
  return sum
}

async function byHour(
  deps: Deps,
  workspaceId: string,
  { asked, pipeIds }: { asked: readonly string[] | null; pipeIds: ReadonlySet<string> },
  range: HourRange,
): Promise<UsageByHour> {
  const times = hourTimes(deps.now(), range)
  // Read before the roll-ups: a flush between the two would otherwise hide counts from both.
  const pending = (deps.pendingUsage?.() ?? []).filter((counts) => pipeIds.has(counts.pipeId))
  const stored = await deps.metadata.usage.byHour(workspaceId, asked, times[0] ?? 0, times.at(-1) ?? 0)
  const shown = times.map((atMs) => {
    const hour = { hour_ts: isoTime(atMs), ...noUsageCounts, ...stored.get(atMs) }
    for (const counts of pending) if (counts.hourMs === atMs) addCounts(hour, counts)
    return hour
  })
  return { hours: shown }
}

/** The query of every operation that returns hours. */
export interface HourRange {
  hours?: number
  until?: string
}

/** The start of each hour of the range in ms: oldest first, at most up to the current one. */
export function hourTimes(
  nowMs: number,
  { hours = usageHours.default, until }: HourRange,
): [number, ...number[]] {
  const endMs = until === undefined ? nowMs : Math.min(nowMs, Date.parse(until))
  const lastMs = Math.floor(endMs / hourMs) * hourMs
  return Array.from({ length: hours }, (_, index) => lastMs - (hours - 1 - index) * hourMs) as [
    number,
    ...number[],
  ]
}

/** The result contains every pipe of `pipeIds`. The window is 24 whole hours including the current one. */
export async function usageByPipe(
  deps: Pick<ManagementDeps, 'metadata' | 'laneViews' | 'now' | 'pendingUsage'>,
  workspaceId: string,
  pipeIds: readonly string[],
): Promise<{ usage_by_pipe: Record<string, PipeUsage>; usage_stats_window_hours: number }> {
  const sinceMs = (Math.floor(deps.now() / hourMs) - (usageStatsWindowHours - 1)) * hourMs
  // Read before the roll-ups: a flush between the two would otherwise hide counts from both.
  const pending = deps.pendingUsage?.() ?? []
  const [rolledUp, backlogs] = await Promise.all([
    deps.metadata.usage.byPipe(workspaceId, sinceMs),
    deps.laneViews.backlogs(pipeIds),
  ])
  const usage_by_pipe: Record<string, PipeUsage> = {}
  for (const pipeId of pipeIds)
    usage_by_pipe[pipeId] = {
      ...{ ...noUsage, rejected_hooks: {}, schema_mismatches: {} },
      ...rolledUp[pipeId],
      ...backlogs[pipeId],
    }
  for (const counts of pending) {
    const usage = usage_by_pipe[counts.pipeId]
    if (usage === undefined || counts.hourMs < sinceMs) continue
    addCounts(usage, counts)
    addRejectedHooks(usage.rejected_hooks, counts.rejectedHooks ?? {})
    addMismatches(usage.schema_mismatches, counts.mismatches ?? {})
    usage.last_ingest_ts = laterIngest(usage.last_ingest_ts, counts)
  }
  return { usage_by_pipe, usage_stats_window_hours: usageStatsWindowHours }
}

const noUsage: Omit<PipeUsage, 'rejected_hooks' | 'schema_mismatches'> = {
  ...noUsageCounts,
  pending_messages: 0,
  pending_bytes: 0,
  blocked_lanes: 0,
  last_ingest_ts: null,
}

/** Adds the counts that ingest has not written yet. */
export function addCounts(
  usage: PipeCounters,
  counts: Pick<IngestCounts, 'requests' | 'records' | 'bytes' | 'rejected'>,
): void {
  usage.ingest_requests += counts.requests
  usage.ingest_records += counts.records
  usage.ingest_bytes += counts.bytes
  usage.rejected_requests += counts.rejected
}

/** The later of both times, in the format of the API. */
export function laterIngest(known: string | null, counts: Pick<IngestCounts, 'lastIngestMs'>): string | null {
  if (counts.lastIngestMs === null) return known
  const last = isoTime(counts.lastIngestMs)
  // ISO 8601 UTC texts of one form sort as times do.
  return known === null || known < last ? last : known
}
