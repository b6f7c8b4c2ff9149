/** Records per second in the last hour, in total or of one pipe. */
import { Suspense, useMemo } from 'react'
import { count } from '../../../platform/quantities.ts'
import type { Rates } from '../../client/overview.ts'
import { useRates } from '../data/overview.ts'
import { Skeleton, Soft } from './layout.tsx'
import { Chart } from './lazy-chart.tsx'

interface Line {
  name: string
  of: (rates: Rates) => number
}

export function RatesChart({ label, lines }: { label: string; lines: readonly Line[] }) {
  const rates = useRates()
  const times = useMemo(() => rates.map((one) => one.atMs / 1000), [rates])
  const series = useMemo(() => lines.map(({ name, of }) => ({ name, values: rates.map(of) })), [rates, lines])
  if (rates.length < 2) return <Soft>Collecting data…</Soft>
  const last = series.map(({ name, values }) => `${name} ${count(values.at(-1) ?? 0)}`).join(', ')
  return (
    <Suspense fallback={<Skeleton lines={4} />}>
      <Chart description={`${label}. Now: ${last}.`} times={times} series={series} />
    </Suspense>
  )
}
