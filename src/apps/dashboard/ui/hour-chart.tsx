/** A chart of the hours of a range, and the same hours as a table, which is loaded when it is opened. */
import { lazy, Suspense, useMemo, useState } from 'react'
import { hourMs } from '../../../platform/quantities.ts'
import type { ChartProps } from './chart.tsx'
import type { HourTableProps } from './hour-table.tsx'
import { layoutStyles, Skeleton } from './layout.tsx'
import { Chart } from './lazy-chart.tsx'

const HourTable = lazy(() =>
  import('./hour-table.tsx').then((module) => ({ default: module.HourTable })),
) as unknown as typeof import('./hour-table.tsx').HourTable

export interface HourLine<Hour> {
  name: string
  /** Null: nothing to draw. */
  of: (hour: Hour) => number | null
}

type Props<Hour> = HourTableProps<Hour> &
  Pick<ChartProps, 'description' | 'format'> & { lines: readonly HourLine<Hour>[] }

export function HourChart<Hour extends { hour_ts: string }>({
  description,
  format,
  lines,
  ...table
}: Props<Hour>) {
  const { hours } = table
  const [isOpen, setOpen] = useState(false)
  const [times, series] = useMemo(() => {
    const starts = hours.map((hour) => Date.parse(hour.hour_ts) / 1000)
    // The last step ends with its hour.
    const end = (starts.at(-1) ?? 0) + hourMs / 1000
    return [
      [...starts, end],
      lines.map(({ name, of }) => {
        const values = hours.map(of)
        return { name, values: [...values, values.at(-1) ?? null] }
      }),
    ]
  }, [hours, lines])
  return (
    <>
      <Suspense fallback={<Skeleton lines={4} />}>
        <Chart description={description} format={format} times={times} series={series} isStepped />
      </Suspense>
      <details className={layoutStyles.details} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>As a table</summary>
        {isOpen ? (
          <Suspense fallback={<Skeleton lines={4} />}>
            <HourTable {...table} />
          </Suspense>
        ) : null}
      </details>
    </>
  )
}
