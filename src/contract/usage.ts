/** What a pipe did in the last 24 hours and what waits in it now (contract "Management bodies"). */
import Type, { type Static } from 'typebox'

export const usageStatsWindowHours = 24
const count = () => Type.Integer({ minimum: 0 })

export const PipeUsage = Type.Object({
  ingest_requests: count(),
  ingest_records: count(),
  ingest_bytes: count(),
  rejected_requests: count(),
  delivered_records: count(),
  failed_attempts: count(),
  skipped_records: count(),
  pending_messages: count(),
  pending_bytes: count(),
  blocked_lanes: count(),
  last_ingest_ts: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
})
export type PipeUsage = Static<typeof PipeUsage>
