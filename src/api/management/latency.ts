/** The latency of a lane over a range of hours, computed from its histograms. */
import type { LaneLatencyReport, LatencySummary, Percentiles } from '../../contract/latency.ts'
import { sumOf } from '../../metadata/lane-hours.ts'
import type { LatencyCounts } from '../../metadata/lane-state.ts'
import { isoTime } from '../../metadata/tables.ts'
import { DurationHistogram } from '../../platform/histogram.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { refOf, requireDestination } from './lookup.ts'
import { hourTimes } from './usage.ts'

export function latencyUseCases({ metadata, now }: Pick<ManagementDeps, 'metadata' | 'now'>) {
  return {
    async getDestinationLatency({
      principal: { workspaceId },
      path,
      query,
    }: Call<'getDestinationLatency'>): Promise<LaneLatencyReport> {
      const found = await requireDestination(metadata, workspaceId, path)
      const times = hourTimes(now(), query)
      const stored = await metadata.latency(refOf(workspaceId, found), times[0], times.at(-1)!)
      return {
        total: summary(sumOf([...stored.values()])),
        hours: times.map((atMs) => ({ hour_ts: isoTime(atMs), ...summary(stored.get(atMs)) })),
      }
    },
  }
}

const nothing: LatencySummary = {
  records: 0,
  latency_ms: null,
  attempts: 0,
  failed_attempts: 0,
  success_rate: null,
  attempt_ms: null,
}

function summary(counts: LatencyCounts | undefined): LatencySummary {
  if (counts === undefined) return nothing
  const records = DurationHistogram.sum([counts.records])
  const attempts = DurationHistogram.sum([counts.delivered, counts.failed])
  const failed = DurationHistogram.sum([counts.failed]).total
  return {
    records: records.total,
    latency_ms: percentiles(records),
    attempts: attempts.total,
    failed_attempts: failed,
    success_rate: attempts.total === 0 ? null : (attempts.total - failed) / attempts.total,
    attempt_ms: percentiles(attempts),
  }
}

function percentiles(histogram: DurationHistogram): Percentiles | null {
  if (histogram.total === 0) return null
  const at = (share: number) => Number(histogram.quantileMs(share)!.toPrecision(4))
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}
