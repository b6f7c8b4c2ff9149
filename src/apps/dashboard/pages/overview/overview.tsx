/** The overview: lanes with problems first, then rates, backlog and buffer. */
import { lazy, Suspense } from 'react'
import { Link } from 'wouter'
import type { Overview } from '../../../../contract/overview.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { lanesBehind, type Rates, troubledLanes } from '../../../client/overview.ts'
import { useOverview, useRates } from '../../data/overview.ts'
import { ButtonLink } from '../../ui/controls.tsx'
import { LaneLink, ParkedLink } from '../../ui/lane-words.tsx'
import { Empty, Facts, Notice, Page, Section, Skeleton, Soft } from '../../ui/layout.tsx'
import { RatesChart } from '../../ui/rates-chart.tsx'
import { PipeUsage } from '../../ui/usage-chart.tsx'
import { PipeTable } from '../pipes/pipe-table.tsx'
import styles from './overview.module.css'

const lines = [
  { name: 'Records in per second', of: (rates: Rates) => rates.ingested },
  { name: 'Records delivered per second', of: (rates: Rates) => rates.delivered },
]
/** The number of lanes with parked records before they are only counted. */
const lanesShown = 5
const pipesShown = 10

export function OverviewPage() {
  const { data: overview } = useOverview()
  return (
    <Page
      title="Overview"
      name="Overview"
      actions={
        <ButtonLink to="/pipes/new" look="primary" changes>
          New pipe
        </ButtonLink>
      }
    >
      {overview === undefined ? (
        <Skeleton lines={9} />
      ) : overview.pipes.length === 0 ? (
        <FirstSteps />
      ) : (
        <Everything overview={overview} />
      )}
    </Page>
  )
}

function FirstSteps() {
  return (
    <Empty title="No pipes yet">
      <p>
        A pipe receives JSON records at its own address and delivers them, in order, to your database, bucket
        or endpoint. Create one, send a record to it, then add a destination.
      </p>
      <ButtonLink to="/pipes/new" look="primary" changes>
        Create the first pipe
      </ButtonLink>
    </Empty>
  )
}

function Everything({ overview }: { overview: Overview }) {
  return (
    <>
      <LostNodes overview={overview} />
      <Troubled overview={overview} />
      <Parked overview={overview} />
      <Numbers overview={overview} />
      <PipeUsage pipeId={null} />
      <Section title="Since this page was opened">
        <RatesChart label="Records per second since this page was opened, at most an hour" lines={lines} />
      </Section>
      <Section title="Pipes" actions={<Link to="/pipes">All pipes ({count(overview.pipes.length)})</Link>}>
        <PipeTable pipes={busiest(overview).slice(0, pipesShown)} />
      </Section>
    </>
  )
}

/** Loaded only if a lane has a problem. */
const Causes = lazy(() => import('./causes.tsx').then((m) => ({ default: m.Causes })))

function Troubled({ overview }: { overview: Overview }) {
  if (troubledLanes(overview).length + lanesBehind(overview).length === 0)
    return <Notice kind="good">All lanes are delivering.</Notice>
  return (
    <Suspense fallback={<Skeleton lines={3} />}>
      <Causes overview={overview} />
    </Suspense>
  )
}

/** Lists expired nodes of a cluster. The service page shows the others. */
function LostNodes({ overview }: { overview: Overview }) {
  const lost = overview.cluster?.nodes.filter(({ node_state }) => node_state === 'expired') ?? []
  if (lost.length === 0) return null
  return (
    <Notice kind="bad">
      <Link to="/service">{counted(lost.length, 'node')} expired</Link>: stopped without notice, or
      disconnected from the cluster.
    </Notice>
  )
}

/** Lanes that parked records. They deliver, but the parked records need attention. */
function Parked({ overview }: { overview: Overview }) {
  const lanes = overview.pipes.flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
  const parked = lanes.filter(({ destination }) => (destination.lane.parked_records ?? 0) > 0)
  if (parked.length === 0) return null
  return (
    <Notice kind="warn">
      {parked.slice(0, lanesShown).map(({ pipe, destination }) => (
        <div key={destination.destination_id} className={styles.parked}>
          <LaneLink pipeId={pipe.pipe_id} pipeName={pipe.pipe_name} destination={destination} /> has{' '}
          <ParkedLink pipeId={pipe.pipe_id} destination={destination} />{' '}
          {destination.lane.parked_records === 1 ? 'record.' : 'records.'} Open{' '}
          {destination.lane.parked_records === 1
            ? 'it to correct and replay it.'
            : 'them to correct and replay them.'}
        </div>
      ))}
      {parked.length > lanesShown ? `and ${counted(parked.length - lanesShown, 'more lane')}` : null}
    </Notice>
  )
}

function Numbers({ overview }: { overview: Overview }) {
  const rates = useRates().at(-1)
  const { buffer, pipes } = overview
  const waiting = pipes.reduce((sum, pipe) => sum + pipe.pending_messages, 0)
  const waitingBytes = pipes.reduce((sum, pipe) => sum + pipe.pending_bytes, 0)
  const today = pipes.reduce((sum, pipe) => sum + pipe.usage_today.ingest_records, 0)
  return (
    <Section title="Now">
      <Facts
        big
        facts={[
          ['Records in per second', rates === undefined ? '…' : count(rates.ingested)],
          ['Records delivered per second', rates === undefined ? '…' : count(rates.delivered)],
          ['Records in today (UTC)', count(today)],
          ['Pending messages', `${count(waiting)} (${bytes(waitingBytes)})`],
        ]}
      />
      <label>
        <Soft>
          Buffer: {bytes(buffer.size_bytes)} of {bytes(buffer.max_bytes)}
        </Soft>
        <meter
          className={styles.fill}
          min={0}
          max={buffer.max_bytes}
          high={buffer.max_bytes * 0.8}
          optimum={0}
          value={buffer.size_bytes}
        />
      </label>
    </Section>
  )
}

/** Pipes with the most pending messages first, then by records today. */
function busiest({ pipes }: Overview) {
  return [...pipes].sort(
    (a, b) =>
      b.pending_messages - a.pending_messages ||
      b.usage_today.ingest_records - a.usage_today.ingest_records ||
      a.pipe_name.localeCompare(b.pipe_name, 'en'),
  )
}
