/** `usage_by_pipe`: hourly roll-ups, what ingest has not written yet, and the lanes' backlogs. Never a scan. */
import { type PipeUsage, usageStatsWindowHours } from '../contract/pipe.ts'
import type { IngestCounts } from '../metadata/store.ts'
import { hourMs } from '../quantities.ts'
import type { ManagementDeps } from './deps.ts'

/** Every pipe of `pipeIds` is in the result. The window is 24 whole hours, the current one included. */
export async function usageByPipe(
  deps: Pick<ManagementDeps, 'metadata' | 'delivery' | 'now' | 'pendingUsage'>,
  workspaceId: string,
  pipeIds: readonly string[],
): Promise<{ usage_by_pipe: Record<string, PipeUsage>; usage_stats_window_hours: number }> {
  const sinceMs = (Math.floor(deps.now() / hourMs) - (usageStatsWindowHours - 1)) * hourMs
  // Taken before the roll-ups are read: a flush between the two would otherwise hide counts from both.
  const pending = deps.pendingUsage?.() ?? []
  const [rolledUp, backlogs] = await Promise.all([
    deps.metadata.usage.byPipe(workspaceId, sinceMs),
    deps.delivery.backlogs(pipeIds),
  ])
  const usage_by_pipe: Record<string, PipeUsage> = {}
  for (const pipeId of pipeIds)
    usage_by_pipe[pipeId] = { ...noUsage, ...rolledUp[pipeId], ...backlogs[pipeId] }
  for (const counts of pending) {
    const usage = usage_by_pipe[counts.pipeId]
    if (usage && counts.hourMs >= sinceMs) addPending(usage, counts)
  }
  return { usage_by_pipe, usage_stats_window_hours: usageStatsWindowHours }
}

const noUsage: PipeUsage = {
  ingest_requests: 0,
  ingest_records: 0,
  ingest_bytes: 0,
  rejected_requests: 0,
  delivered_records: 0,
  failed_attempts: 0,
  skipped_records: 0,
  pending_messages: 0,
  pending_bytes: 0,
  blocked_lanes: 0,
  last_ingest_ts: null,
}

function addPending(usage: PipeUsage, counts: IngestCounts): void {
  usage.ingest_requests += counts.requests
  usage.ingest_records += counts.records
  usage.ingest_bytes += counts.bytes
  usage.rejected_requests += counts.rejected
  if (counts.lastIngestMs === null) return
  const last = new Date(counts.lastIngestMs).toISOString()
  // ISO 8601 UTC texts of one form sort as times do.
  if (usage.last_ingest_ts === null || usage.last_ingest_ts < last) usage.last_ingest_ts = last
}
