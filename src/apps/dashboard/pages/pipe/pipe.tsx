/** One pipe: does data arrive, how do I send it, and where does it go? */
import { useMemo, useState } from 'react'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { Rates } from '../../../client/overview.ts'
import { api, isNotFound } from '../../data/api.ts'
import { usePipeOverview, useRate } from '../../data/overview.ts'
import { useChange, usePipe } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, ButtonLink, formStyles } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { Empty, Facts, Notice, Page, Section, Skeleton } from '../../ui/layout.tsx'
import { RatesChart } from '../../ui/rates-chart.tsx'
import { PipeStatus } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { PipeUsage } from '../../ui/usage-chart.tsx'
import { LaneTable } from '../lanes/lane-table.tsx'
import { RecentMessages } from '../message/recent.tsx'
import { ParkedAtPipe } from '../pipe-parked/count.tsx'
import { Gone, PipesCrumb } from './crumbs.tsx'
import { Snippets, WaitingForRecords } from './send.tsx'

export function PipePage({ pipeId }: { pipeId: string }) {
  const { data, error } = usePipe(pipeId)
  const live = usePipeOverview(pipeId)
  if (isNotFound(error)) return <Gone what="pipe" />
  if (data === undefined) {
    return (
      <Page title="Pipe" name={<Outside text={live?.pipe_name ?? 'Pipe'} />} crumbs={<PipesCrumb />}>
        <Loading error={error} lines={9} />
      </Page>
    )
  }
  const { pipe } = data
  const destinations = data.destinations.map((one) => ({
    ...one,
    lane: live?.lanes.find((lane) => lane.destination_id === one.destination_id)?.lane ?? one.lane,
  }))
  const isNew = live?.last_ingest_ts === null
  // Above the data until the first record has arrived.
  const send = (
    <Section key="send" title="Send records">
      <Snippets key={pipeId} pipe={pipe} destinations={destinations} />
    </Section>
  )
  return (
    <Page
      title={pipe.pipe_name}
      name={<Outside text={pipe.pipe_name} />}
      crumbs={<PipesCrumb />}
      actions={<Actions pipe={pipe} live={live} />}
    >
      {pipe.pipe_description === '' ? null : (
        <p>
          <Outside text={pipe.pipe_description} />
        </p>
      )}
      {pipe.pipe_status === 'paused' ? (
        <Notice kind="warn">
          Paused: records sent to this pipe are rejected. Records accepted before are still delivered.
        </Notice>
      ) : null}
      <ParkedAtPipe pipeId={pipeId} />
      {isNew ? <WaitingForRecords /> : null}
      {live === undefined ? null : <Live pipe={live} />}
      <Section
        title="Destinations"
        actions={
          <ButtonLink to={`/pipes/${pipeId}/destinations/new`} changes>
            Add a destination
          </ButtonLink>
        }
      >
        {destinations.length === 0 ? (
          <Empty title="No destinations yet">
            <p>
              Records are kept for the retention time of undelivered messages. Add a table, a bucket, an
              endpoint, or a destination that consumers pull from.
            </p>
          </Empty>
        ) : (
          <Destinations pipe={live} />
        )}
      </Section>
      {isNew ? send : null}
      <RecentMessages pipeId={pipeId} pipeName={pipe.pipe_name} />
      <PipeUsage pipeId={pipeId} />
      {live === undefined ? null : <Traffic pipe={live} />}
      {isNew ? null : send}
    </Page>
  )
}

function Destinations({ pipe }: { pipe: OverviewPipe | undefined }) {
  const lanes = useMemo(() => pipe?.lanes.map((destination) => ({ pipe, destination })) ?? [], [pipe])
  // The overview has a new pipe and a new destination a moment later.
  return lanes.length === 0 ? <Skeleton lines={2} /> : <LaneTable caption="Destinations" lanes={lanes} />
}

function Actions({ pipe, live }: { pipe: Pipe; live: OverviewPipe | undefined }) {
  const [isAsking, setAsking] = useState(false)
  const isPaused = pipe.pipe_status === 'paused'
  const verb = isPaused ? 'resume' : 'pause'
  const twin = command('pipes', verb, pipe.pipe_name)
  const toggle = useChange(() =>
    api.call('updatePipe', {
      path: { pipe_id: pipe.pipe_id },
      body: { pipe_status: isPaused ? 'active' : 'paused' },
    }),
  )
  const run = () =>
    toggle.mutateAsync().then(() => say(`Pipe ${pipe.pipe_name} ${isPaused ? 'resumed' : 'paused'}.`, twin))
  return (
    <div className={formStyles.actions}>
      <PipeStatus pipe={pipe} />
      <Button changes isBusy={toggle.isPending} onClick={() => setAsking(true)}>
        {isPaused ? 'Resume' : 'Pause'}
      </Button>
      <ButtonLink to={`/pipes/${pipe.pipe_id}/tail`}>Live tail</ButtonLink>
      <ButtonLink to={`/pipes/${pipe.pipe_id}/settings`}>Settings</ButtonLink>
      {isAsking ? (
        <Confirm
          title={isPaused ? 'Resume this pipe?' : 'Pause this pipe?'}
          confirmLabel={isPaused ? 'Resume' : 'Pause'}
          isDanger={!isPaused}
          command={twin}
          run={run}
          onClose={() => setAsking(false)}
        >
          {isPaused
            ? 'It accepts records again immediately.'
            : `Requests to it get 404 until it is resumed. Pending messages (${counted(live?.pending_messages ?? 0, 'message')}) are still delivered.`}
        </Confirm>
      ) : null}
    </div>
  )
}

function Live({ pipe }: { pipe: OverviewPipe }) {
  const rate = useRate(pipe.pipe_id)
  return (
    <Section title="Now">
      <Facts
        big
        facts={[
          ['Records in per second', count(rate)],
          ['Records in today (UTC)', count(pipe.usage_today.ingest_records)],
          ['Last record', <Ago key="last" at={pipe.last_ingest_ts} never="none yet" />],
          [
            'Pending messages',
            pipe.pending_messages === 0
              ? 'none'
              : `${count(pipe.pending_messages)} (${bytes(pipe.pending_bytes)})`,
          ],
        ]}
      />
    </Section>
  )
}

function Traffic({ pipe }: { pipe: OverviewPipe }) {
  const { usage_today: today } = pipe
  const lines = [
    { name: 'Records in per second', of: (rates: Rates) => rates.byId.get(pipe.pipe_id) ?? 0 },
    {
      name: 'Records delivered per second',
      of: (rates: Rates) =>
        pipe.lanes.reduce((sum, lane) => sum + (rates.byId.get(lane.destination_id) ?? 0), 0),
    },
  ]
  return (
    <Section title="Traffic">
      <RatesChart label="Records per second of this pipe, since this page was opened" lines={lines} />
      <Facts
        facts={[
          ['Requests today', count(today.ingest_requests)],
          ['Bytes today', bytes(today.ingest_bytes)],
          ['Rejected requests today', count(today.rejected_requests)],
          ['Records delivered today', count(today.delivered_records)],
          ['Failed attempts today', count(today.failed_attempts)],
          ['Records skipped today', count(today.skipped_records)],
          ['Records filtered out today', count(today.filtered_records)],
        ]}
      />
    </Section>
  )
}
