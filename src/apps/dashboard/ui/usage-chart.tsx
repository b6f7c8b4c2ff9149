/** Charts the hours of everything, of one pipe or of one lane. All charted data is also in a table. */
import { useEffect } from 'react'
import type { LaneHour, UsageHour } from '../../../contract/usage.ts'
import { count } from '../../../platform/quantities.ts'
import { useHourRange } from '../data/hour-range.ts'
import { useOverview, usePipeOverview } from '../data/overview.ts'
import { useLaneUsage, useUsage } from '../data/queries.ts'
import { Loading } from './failure.tsx'
import { HourChart } from './hour-chart.tsx'
import { Section, Soft } from './layout.tsx'
import { TimeRange } from './time-range.tsx'

interface Line<Hour> {
  name: string
  of: (hour: Hour) => number
}

const pipeLines: readonly Line<UsageHour>[] = [
  { name: 'Records in', of: (hour) => hour.ingest_records },
  { name: 'Records delivered', of: (hour) => hour.delivered_records },
]
const laneLines: readonly Line<LaneHour>[] = [
  { name: 'Records delivered', of: (hour) => hour.delivered_records },
  { name: 'Records skipped', of: (hour) => hour.skipped_records },
]
/**
 * Only in the table: failed attempts are another kind of count, and filtered records can far exceed delivered ones.
 */
const filtered = { name: 'Records filtered out', of: (hour: LaneHour) => hour.filtered_records }
const failedAttempts: Line<LaneHour> = { name: 'Failed attempts', of: (hour) => hour.failed_attempts }

/**
 * Loads the usage again when the overview, which is newer, already shows records and the chart does not. The chart is
 * otherwise loaded once a minute, which is too slow for the very first records.
 */
function useFirst(isShown: boolean, isKnown: boolean, refetch: () => unknown): void {
  const isBehind = isKnown && !isShown
  useEffect(() => {
    if (isBehind) void refetch()
  }, [isBehind, refetch])
}

/** `pipeId` null: all pipes. */
export function PipeUsage({ pipeId }: { pipeId: string | null }) {
  const { data, error, refetch } = useUsage(pipeId)
  const pipes = useOverview().data?.pipes ?? []
  const own = pipeId === null ? pipes : pipes.filter((pipe) => pipe.pipe_id === pipeId)
  useFirst(
    data?.some((hour) => hour.ingest_records > 0) ?? true,
    own.some((pipe) => pipe.usage_today.ingest_records > 0),
    refetch,
  )
  return (
    <UsageSection
      hours={data}
      error={error}
      lines={pipeLines}
      others={[filtered]}
      nothing="No records were received or delivered."
    />
  )
}

export function LaneUsage({ pipeId, destinationId }: { pipeId: string; destinationId: string }) {
  const { data, error, refetch } = useLaneUsage(pipeId, destinationId)
  const lane = usePipeOverview(pipeId)?.lanes.find((one) => one.destination_id === destinationId)?.lane
  useFirst(
    data?.some((hour) => hour.delivered_records + hour.filtered_records > 0) ?? true,
    lane !== undefined && lane.delivered_records + (lane.filtered_records ?? 0) > 0,
    refetch,
  )
  return (
    <UsageSection
      hours={data}
      error={error}
      lines={laneLines}
      others={[filtered, failedAttempts]}
      nothing="No records were delivered, skipped or filtered out, and no attempt failed."
    />
  )
}

interface HoursProps<Hour> {
  hours: readonly Hour[]
  /** Shown in the chart and in the table. */
  lines: readonly Line<Hour>[]
  /** Only in the table. */
  others: readonly Line<Hour>[]
  /** The text that is shown if every value is zero. */
  nothing: string
}

function UsageSection<Hour extends { hour_ts: string }>({
  hours,
  error,
  ...shown
}: Omit<HoursProps<Hour>, 'hours'> & { hours: readonly Hour[] | undefined; error: Error | null }) {
  return (
    <Section title="Records per hour" actions={<TimeRange of="records" />}>
      {hours !== undefined ? <Hours hours={hours} {...shown} /> : <Loading error={error} lines={4} />}
    </Section>
  )
}

function Hours<Hour extends { hour_ts: string }>({ hours, lines, others, nothing }: HoursProps<Hour>) {
  const { words } = useHourRange()
  const all = [...lines, ...others]
  const isEmpty = (hour: Hour) => all.every(({ of }) => of(hour) === 0)
  if (hours.every(isEmpty)) return <Soft>{nothing}</Soft>
  const totals = all.map(({ name, of }) => `${name} ${count(hours.reduce((sum, hour) => sum + of(hour), 0))}`)
  const caption = `Records per hour ${words}`
  return (
    <HourChart
      description={`${caption}. Total: ${totals.join(', ')}.`}
      lines={lines}
      caption={caption}
      hours={hours}
      columns={all.map(({ name, of }) => ({ name, text: (hour: Hour) => count(of(hour)) }))}
      isEmpty={isEmpty}
    />
  )
}
