/**
 * Converts a destination's own delivery settings between the columns of its row and the contract's shapes. The name is
 * in `destinations.ts`.
 */
import type { DeliverySettings, GivenDeliverySettings } from '../contract/delivery-settings.ts'
import type { FlushLimits } from './lane-state.ts'
import type { DestinationRow } from './tables.ts'

type Columns = Pick<
  DestinationRow,
  | 'flush_max_records'
  | 'flush_max_bytes'
  | 'flush_max_seconds'
  | 'rate_requests_per_second'
  | 'concurrency'
  | 'on_permanent_error'
>

export const noDeliverySettings: Columns = {
  flush_max_records: null,
  flush_max_bytes: null,
  flush_max_seconds: null,
  rate_requests_per_second: null,
  concurrency: null,
  on_permanent_error: 'block',
}

/** Returns the columns to set. Undefined leaves a column as it is, null clears it. */
export function deliverySettingColumns({
  flush,
  rate,
  concurrency,
  on_permanent_error,
}: GivenDeliverySettings): Partial<Columns> {
  return {
    ...(flush === undefined
      ? {}
      : {
          flush_max_records: flush?.max_records ?? null,
          flush_max_bytes: flush?.max_bytes ?? null,
          flush_max_seconds: flush?.max_seconds ?? null,
        }),
    ...(rate === undefined ? {} : { rate_requests_per_second: rate?.requests_per_second ?? null }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(on_permanent_error === undefined ? {} : { on_permanent_error: on_permanent_error ?? 'block' }),
  }
}

export function decodeDeliverySettings(row: Columns): Omit<DeliverySettings, 'destination_name'> {
  const flush = ownFlush(row)
  return {
    flush: flush && {
      max_records: flush.maxRecords,
      max_bytes: flush.maxBytes,
      max_seconds: flush.maxSeconds,
    },
    rate:
      row.rate_requests_per_second === null ? null : { requests_per_second: row.rate_requests_per_second },
    concurrency: row.concurrency,
    on_permanent_error: row.on_permanent_error,
  }
}

/** Null: the destination has no flush plan of its own. The three columns are set together. */
export function ownFlush(row: Columns): FlushLimits | null {
  if (row.flush_max_records === null) return null
  return {
    maxRecords: row.flush_max_records,
    maxBytes: row.flush_max_bytes!,
    maxSeconds: row.flush_max_seconds!,
  }
}
