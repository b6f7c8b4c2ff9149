/** Hourly usage: what a pipe, or all pipes of the workspace, received and delivered in each of the last hours. */
import Type, { type Static } from 'typebox'
import { Mismatches } from './pipe-schema.ts'
import { RejectedHooks } from './pipe-source.ts'
import { count, moment, query, timestamp } from './schema-parts.ts'

/** The number of hours that a client can request. Each is stored for one more day. */
export const usageHours = { min: 1, max: 720, default: 24 } as const

/** The hourly counters of a pipe. */
export const usageCounts = [
  'ingest_requests',
  'ingest_records',
  'ingest_bytes',
  'rejected_requests',
  'delivered_records',
  'failed_attempts',
  'skipped_records',
  'filtered_records',
] as const
export type UsageCounts = Record<(typeof usageCounts)[number], number>
export const noUsageCounts: Readonly<UsageCounts> = {
  ingest_requests: 0,
  ingest_records: 0,
  ingest_bytes: 0,
  rejected_requests: 0,
  delivered_records: 0,
  failed_attempts: 0,
  skipped_records: 0,
  filtered_records: 0,
}

/** The counters of ingest, and all counters, in responses. */
export const ingestCountFields = {
  ingest_requests: count(),
  ingest_records: count(),
  ingest_bytes: count(),
  rejected_requests: count(),
}
const laneCountFields = {
  delivered_records: count(),
  failed_attempts: count(),
  skipped_records: count(),
  filtered_records: count('Records that transforms filtered out: not in `delivered_records`.'),
}
export const usageCountFields = { ...ingestCountFields, ...laneCountFields }

export const UsageHour = Type.Object({
  hour_ts: timestamp('The start of the hour (UTC).'),
  ...usageCountFields,
})
export type UsageHour = Static<typeof UsageHour>

/** Oldest first. The last hour is the current, incomplete one. Hours without activity have zeros. */
export const UsageByHour = Type.Object({ hours: Type.Array(UsageHour) })
export type UsageByHour = Static<typeof UsageByHour>

/** The hours of one pipe, the webhooks that were rejected in them, and the records that did not match its schema. */
export const PipeUsageByHour = Type.Object({
  ...UsageByHour.properties,
  rejected_hooks: RejectedHooks,
  schema_mismatches: Mismatches,
})
export type PipeUsageByHour = Static<typeof PipeUsageByHour>

export const LaneHour = Type.Object({
  hour_ts: UsageHour.properties.hour_ts,
  ...laneCountFields,
})
export type LaneHour = Static<typeof LaneHour>
export const noLaneCounts = {
  delivered_records: 0,
  failed_attempts: 0,
  skipped_records: 0,
  filtered_records: 0,
} as const

/** Same order as UsageByHour. */
export const LaneByHour = Type.Object({ hours: Type.Array(LaneHour) })
export type LaneByHour = Static<typeof LaneByHour>

export const hoursParameter = query(
  'hours',
  Type.Integer({ minimum: usageHours.min, maximum: usageHours.max, default: usageHours.default }),
  'The number of hours, including the last one.',
)

export const untilParameter = query(
  'until',
  moment,
  'The last hour is the one that contains this time. Default, and latest: the current hour.',
)

export const usageFreshness =
  'One entry per hour (UTC), oldest first, including the current hour; zeros if nothing happened. Requests ' +
  'count at once, deliveries at the next save of their lane. Counts of ingest are saved every 5 seconds: after a crash, ' +
  'unsaved accepted records are added to the hour of the next start, and unsaved rejected requests are lost.'
