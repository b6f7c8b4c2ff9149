/** Usage by the hour: what a pipe, or all pipes of the workspace, took in and delivered in each of the last hours. */
import Type, { type Static } from 'typebox'

/** How many hours may be asked for; each is kept for a day longer. */
export const usageHours = { min: 1, max: 168, default: 24 } as const

/** The counters of a pipe in each hour. */
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

const count = () => Type.Integer({ minimum: 0 })

/** The counts of what ingest does, and of everything, as they stand in responses. */
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
  filtered_records: Type.Integer({
    minimum: 0,
    description: 'Records that transforms filtered out: not in `delivered_records`.',
  }),
}
export const usageCountFields = { ...ingestCountFields, ...laneCountFields }

export const UsageHour = Type.Object({
  hour_ts: Type.String({ format: 'date-time', description: 'The start of the hour (UTC).' }),
  ...usageCountFields,
})
export type UsageHour = Static<typeof UsageHour>

/** Oldest first; the last is the current hour, of which there is more to come. Zeros where nothing happened. */
export const UsageByHour = Type.Object({ hours: Type.Array(UsageHour) })
export type UsageByHour = Static<typeof UsageByHour>

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

/** As UsageByHour. */
export const LaneByHour = Type.Object({ hours: Type.Array(LaneHour) })
export type LaneByHour = Static<typeof LaneByHour>

export const hoursParameter = {
  in: 'query',
  name: 'hours',
  schema: Type.Integer({ minimum: usageHours.min, maximum: usageHours.max, default: usageHours.default }),
  description: 'The number of hours, including the current one.',
} as const

export const usageFreshness =
  'One entry per hour (UTC), oldest first, including the current hour; zeros if nothing happened. Requests ' +
  'count at once, deliveries at the next save of their lane. Counts of ingest are saved every 5 seconds: after a crash, ' +
  'unsaved accepted records are added to the hour of the next start, and unsaved rejected requests are lost.'
