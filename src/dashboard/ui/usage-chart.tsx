/** Records in and delivered in each of the last 24 hours: of everything, or of one pipe. All that is drawn is also in a table. */
import { Suspense, useMemo } from 'react'
import type { UsageHour } from '../../contract/usage.ts'
import { count, hourMs } from '../../quantities.ts'
import { useUsage } from '../data/queries.ts'
import { FailureNotice } from './failure.tsx'
import { layoutStyles, Section, Skeleton, Soft, Table } from './layout.tsx'
import { Chart } from './lazy-chart.tsx'

const lines = [
  { name: 'Records in', of: (hour: UsageHour) => hour.ingest_records },
  { name: 'Records delivered', of: (hour: UsageHour) => hour.delivered_records },
]

/** `pipeId` null: of all pipes. */
export function LastDay({ pipeId }: { pipeId: string | null }) {
  const { data: hours, error } = useUsage(pipeId)
  return (
    <Section title="Last 24 hours">
      {hours !== undefined ? (
        <Hours hours={hours} />
      ) : error === null ? (
        <Skeleton lines={4} />
      ) : (
        <FailureNotice failure={error} />
      )}
    </Section>
  )
}

function Hours({ hours }: { hours: readonly UsageHour[] }) {
  const [times, series] = useMemo(() => {
    const starts = hours.map((hour) => Date.parse(hour.hour_ts) / 1000)
    // The last step needs an end, which is that of its hour.
    const end = (starts.at(-1) ?? 0) + hourMs / 1000
    return [
      [...starts, end],
      lines.map(({ name, of }) => {
        const values = hours.map(of)
        return { name, values: [...values, values.at(-1) ?? 0] }
      }),
    ]
  }, [hours])
  if (hours.every((hour) => lines.every(({ of }) => of(hour) === 0))) {
    return <Soft>No record came in or was delivered, as of a minute ago at most.</Soft>
  }
  const totals = lines.map(
    ({ name, of }) => `${name} ${count(hours.reduce((sum, hour) => sum + of(hour), 0))}`,
  )
  return (
    <>
      <Suspense fallback={<Skeleton lines={4} />}>
        <Chart
          description={`Records per hour of the last 24 hours. Together: ${totals.join(', ')}.`}
          times={times}
          series={series}
          isStepped
        />
      </Suspense>
      <details className={layoutStyles.details}>
        <summary>As a table</summary>
        <Table
          caption="Records per hour of the last 24 hours"
          rows={[...hours].reverse()}
          keyOf={(hour) => hour.hour_ts}
          columns={[
            { label: 'Hour', cell: (hour) => <time dateTime={hour.hour_ts}>{startOf(hour)}</time> },
            ...lines.map(({ name, of }) => ({
              label: name,
              cell: (hour: UsageHour) => count(of(hour)),
              isNumber: true,
            })),
          ]}
        />
      </details>
    </>
  )
}

function startOf({ hour_ts }: UsageHour): string {
  return new Date(hour_ts).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
}
