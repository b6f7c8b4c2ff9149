/** The latency of a lane: from acceptance to the destination, and of its attempts, over a range and by hour. */
import Type, { type Static } from 'typebox'
import { count, nullable } from './schema-parts.ts'
import { UsageHour } from './usage.ts'

const ms = () => Type.Number({ minimum: 0 })

export const Percentiles = Type.Object(
  { p50: ms(), p95: ms(), p99: ms() },
  { description: 'Milliseconds, each at most 10 % above or below the exact value. 1: at most 1 ms.' },
)
export type Percentiles = Static<typeof Percentiles>

const summaryFields = {
  records: count('Records that the destination received and whose latency was measured.'),
  latency_ms: nullable(Percentiles),
  attempts: count('Attempts, with those of replays. A pull destination has none.'),
  failed_attempts: count('Attempts that failed.'),
  success_rate: nullable(
    Type.Number({
      minimum: 0,
      maximum: 1,
      description: 'The share of the attempts that delivered. null: there were no attempts.',
    }),
  ),
  attempt_ms: nullable(Percentiles),
}

export const LatencySummary = Type.Object(summaryFields)
export type LatencySummary = Static<typeof LatencySummary>

export const LatencyHour = Type.Object({ hour_ts: UsageHour.properties.hour_ts, ...summaryFields })
export type LatencyHour = Static<typeof LatencyHour>

/** `hours`: the same order as UsageByHour. */
export const LaneLatencyReport = Type.Object({
  total: LatencySummary,
  hours: Type.Array(LatencyHour),
})
export type LaneLatencyReport = Static<typeof LaneLatencyReport>

export const latencyDescription =
  'Latency is the time from the acceptance of a record to the moment at which the destination has it, by record; with ' +
  'a pull destination, until the message was pulled or acknowledged. Records that were parked, skipped or filtered out, ' +
  'replays of parked records, and records that are delivered again after a rewind are not in it. Attempts are ' +
  'measured like `duration_ms` of an attempt. One entry per hour (UTC), oldest first, including the current hour. The ' +
  'figures are written every 10 s and kept for 30 days; a crash loses those of at most 10 s.'
