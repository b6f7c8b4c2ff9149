/** Records per second of the last hour: of everything, or of one pipe. The chart's package comes when it is needed. */
import { lazy, Suspense, useMemo } from 'react'
import type { Rates } from '../../client/overview.ts'
import { useRates } from '../data/overview.ts'
import { Skeleton, Soft } from './layout.tsx'

const Chart = lazy(() => import('./chart.tsx').then((module) => ({ default: module.Chart })))

interface Line {
  name: string
  of: (rates: Rates) => number
}

export function RatesChart({ label, lines }: { label: string; lines: readonly Line[] }) {
  const rates = useRates()
  const times = useMemo(() => rates.map((one) => one.atMs / 1000), [rates])
  const series = useMemo(() => lines.map(({ name, of }) => ({ name, values: rates.map(of) })), [rates, lines])
  if (rates.length < 2) return <Soft>Measuring: two looks at the service make a rate.</Soft>
  return (
    <Suspense fallback={<Skeleton lines={4} />}>
      <Chart label={label} times={times} series={series} />
    </Suspense>
  )
}
