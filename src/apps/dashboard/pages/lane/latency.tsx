/** How long records take to the destination of a lane, and how often its attempts succeed. */
import type { LaneLatencyReport, LatencyHour } from '../../../../contract/latency.ts'
import { count, hourMs } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { latencyText, shareText } from '../../../client/latency.ts'
import { type HourRange, useHourRange } from '../../data/hour-range.ts'
import { useLatency } from '../../data/queries.ts'
import { Loading } from '../../ui/failure.tsx'
import { HourChart } from '../../ui/hour-chart.tsx'
import { CliTwin, Facts, Section, Soft } from '../../ui/layout.tsx'
import { TimeRange } from '../../ui/time-range.tsx'

const lines = (['p50', 'p95', 'p99'] as const).map((name) => ({
  name,
  of: ({ latency_ms }: LatencyHour) => latency_ms?.[name] ?? null,
}))
const latencyColumns = lines.map(({ name, of }) => ({
  name,
  text: (hour: LatencyHour) => latencyText(of(hour) ?? undefined),
}))
const attemptColumns = [
  { name: 'Attempts', text: (hour: LatencyHour) => count(hour.attempts) },
  { name: 'Failed', text: (hour: LatencyHour) => count(hour.failed_attempts) },
  { name: 'Success', text: (hour: LatencyHour) => shareText(hour.success_rate) },
]

interface Props {
  pipeId: string
  destinationId: string
  /** For the command line. */
  name: string
  /** A pull destination has no attempts. */
  isPulled: boolean
}

export function LatencySection({ pipeId, destinationId, name, isPulled }: Props) {
  const { data, error } = useLatency(pipeId, destinationId)
  const range = useHourRange()
  return (
    <Section title="Latency and success" actions={<TimeRange of="latency" />}>
      {data === undefined ? (
        <Loading error={error} lines={4} />
      ) : data.total.records + data.total.attempts === 0 ? (
        <Soft>Nothing was delivered or attempted in this time.</Soft>
      ) : (
        <>
          <Numbers total={data.total} isPulled={isPulled} />
          <Percentiles report={data} isPulled={isPulled} />
        </>
      )}
      <CliTwin command={command('lanes', 'latency', name, ...options(range))} />
    </Section>
  )
}

function options({ name, query: { hours, until } }: HourRange): string[] {
  if (name !== null) return name === '24h' ? [] : ['--since', name]
  const since = new Date(Date.parse(until!) - (Number(hours) - 1) * hourMs).toISOString()
  return ['--since', since, '--until', until!]
}

function Numbers({ total, isPulled }: Pick<LaneLatencyReport, 'total'> & Pick<Props, 'isPulled'>) {
  const { latency_ms: latency, attempt_ms: attempt } = total
  const records = ['Records measured', count(total.records)] as const
  const ofAttempts = [
    ['Attempts', count(total.attempts)],
    ['Failed attempts', count(total.failed_attempts)],
    ['Attempt p50', latencyText(attempt?.p50)],
    ['Attempt p95', latencyText(attempt?.p95)],
    ['Attempt p99', latencyText(attempt?.p99)],
  ] as const
  return (
    <>
      <Facts
        big
        facts={[
          ['Latency p50', latencyText(latency?.p50)],
          ['Latency p95', latencyText(latency?.p95)],
          ['Latency p99', latencyText(latency?.p99)],
          ...(isPulled ? [] : [['Successful attempts', shareText(total.success_rate)] as const]),
        ]}
      />
      <Facts facts={isPulled ? [records] : [records, ...ofAttempts]} />
    </>
  )
}

function Percentiles({
  report: { total, hours },
  isPulled,
}: { report: LaneLatencyReport } & Pick<Props, 'isPulled'>) {
  const { words } = useHourRange()
  const all = lines.map(({ name }) => `${name} ${latencyText(total.latency_ms?.[name])}`).join(', ')
  const columns = [{ name: 'Records', text: (hour: LatencyHour) => count(hour.records) }, ...latencyColumns]
  return (
    <HourChart
      description={`Latency from acceptance to the destination, per hour ${words}. Whole range: ${all}.`}
      format={latencyText}
      lines={lines}
      caption={`Latency per hour ${words}`}
      hours={hours}
      columns={isPulled ? columns : [...columns, ...attemptColumns]}
      isEmpty={({ records, attempts }) => records + attempts === 0}
    />
  )
}
