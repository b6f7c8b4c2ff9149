/** One lane: why does it fail, and what can I do? */
import { lazy, type ReactNode, Suspense, useState } from 'react'
import type { Destination } from '../../../../contract/destination.ts'
import { wordsOf } from '../../../../contract/destination-words.ts'
import type { ConfigField } from '../../../../contract/destinations/config-field.ts'
import { needsAttention } from '../../../../contract/state-words.ts'
import { bytes, count, counted, duration } from '../../../../platform/quantities.ts'
import { destinationName } from '../../../client/cli-twin.ts'
import { laneCause } from '../../../client/lane-causes.ts'
import type { Rates } from '../../../client/overview.ts'
import { describeTarget } from '../../../client/workspace.ts'
import { isNotFound } from '../../data/api.ts'
import { useNow } from '../../data/clock.ts'
import { usePipeOverview, useRate } from '../../data/overview.ts'
import { useBlockingMessage, useDestination } from '../../data/queries.ts'
import { ButtonLink, formStyles } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { Id, IdCopy } from '../../ui/id.tsx'
import { Cause, nameOf, ParkedLink, Since, Waiting } from '../../ui/lane-words.tsx'
import { Facts, Notice, Page, Section, Table } from '../../ui/layout.tsx'
import { RatesChart } from '../../ui/rates-chart.tsx'
import { LaneState } from '../../ui/state.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import { LaneUsage } from '../../ui/usage-chart.tsx'
import { Gone, PipeCrumb } from '../pipe/crumbs.tsx'
import { ReplaysSection } from '../replay/section.tsx'
import { AttemptsSection } from './attempts.tsx'
import { Blocking } from './blocking.tsx'
import { DriftSection } from './drift.tsx'
import styles from './lane.module.css'
import { LaneActions } from './lane-actions.tsx'
import { LatencySection } from './latency.tsx'
import { TransformSection } from './transform.tsx'

/** Only SQLite destinations have it. */
const QueryBox = lazy(() => import('./query-box.tsx').then((module) => ({ default: module.QueryBox })))

export function LanePage({ pipeId, destinationId }: { pipeId: string; destinationId: string }) {
  const { data: destination, error, etag } = useDestination(pipeId, destinationId)
  if (isNotFound(error)) return <Gone what="destination" />
  return (
    <Page
      title={destination === undefined ? 'Lane' : nameOf(destination)}
      name={destination === undefined ? 'Lane' : <Outside text={nameOf(destination)} />}
      crumbs={<PipeCrumb pipeId={pipeId} />}
      actions={
        destination === undefined ? null : (
          <div className={formStyles.actions}>
            <LaneState destination={destination} />
            <ButtonLink to={`/pipes/${pipeId}/destinations/${destinationId}/edit`} changes>
              Edit
            </ButtonLink>
          </div>
        )
      }
    >
      {destination === undefined ? (
        <Loading error={error} lines={12} />
      ) : (
        <Lane destination={destination} etag={etag} />
      )}
    </Page>
  )
}

function Lane({ destination, etag }: { destination: Destination; etag: string | null }) {
  const { lane, pipe_id: pipeId, destination_id: id } = destination
  const pipeName = usePipeOverview(pipeId)?.pipe_name ?? 'PIPE'
  const isBlocked = destination.destination_status === 'blocked'
  const msgId = isBlocked ? null : lane.blocking_msg_id
  const [chosen, setChosen] = useState<{ msgId: string | null; from: number } | null>(null)
  const from = chosen !== null && chosen.msgId === msgId ? chosen.from : (lane.last_error?.record_index ?? 0)
  const { data: blocking } = useBlockingMessage(pipeId, id, msgId, from)
  const lines = [{ name: 'Records delivered per second', of: (rates: Rates) => rates.byId.get(id) ?? 0 }]
  return (
    <>
      <Explanation destination={destination} />
      <LaneActions
        pipeName={pipeName}
        destination={destination}
        etag={etag}
        blockingRecords={blocking?.body.records_count ?? null}
      />
      {blocking ? (
        <Blocking
          response={blocking.text}
          body={blocking.body}
          from={blocking.from}
          onFrom={(place) => setChosen({ msgId, from: place })}
          destination={destination}
        />
      ) : null}
      <Numbers destination={destination} />
      {wordsOf(destination.destination_type).isTableFile ? (
        <Suspense fallback={null}>
          <QueryBox destination={destination} pipeName={pipeName} />
        </Suspense>
      ) : null}
      {wordsOf(destination.destination_type).isPulled ? null : (
        <AttemptsSection destination={destination} pipeName={pipeName} />
      )}
      {wordsOf(destination.destination_type).isPulled ? null : (
        <ReplaysSection lane={{ pipeId, destinationId: id }} name={destinationName(pipeName, destination)} />
      )}
      <LatencySection
        pipeId={pipeId}
        destinationId={id}
        name={destinationName(pipeName, destination)}
        isPulled={wordsOf(destination.destination_type).isPulled}
      />
      <LaneUsage pipeId={pipeId} destinationId={id} />
      <Section title="Since this page was opened">
        <RatesChart
          label="Records delivered per second by this lane, since this page was opened"
          lines={lines}
        />
      </Section>
      {wordsOf(destination.destination_type).isDatabase ? (
        <DriftSection destination={destination} pipeName={pipeName} />
      ) : null}
      {destination.transform ? <TransformSection transform={destination.transform} /> : null}
      <Config destination={destination} />
    </>
  )
}

/** Why the lane fails, and what to do. */
function Explanation({ destination }: { destination: Destination }) {
  const { lane } = destination
  const nowMs = useNow()
  const cause = laneCause(destination, nowMs)
  const hasTrouble = destination.destination_status === 'blocked' || lane.blocking_msg_id !== null
  const well = cause === null ? 'Delivering normally.' : 'Falling behind.'
  return (
    <Notice kind={cause === null ? 'good' : needsAttention(destination, nowMs) ? 'bad' : 'warn'}>
      <div className={styles.error}>{hasTrouble ? <Cause lane={lane} /> : well}</div>
      {cause === null ? null : (
        <div>
          <strong>What to do:</strong> {cause.advice}
        </div>
      )}
      <Since lane={lane} /> <Waiting lane={lane} />
    </Notice>
  )
}

function Numbers({ destination }: { destination: Destination }) {
  const { destination_id: id, lane } = destination
  const rate = useRate(id)
  return (
    <Section title="Now">
      <Facts
        big
        facts={[
          ['Records out per second', count(rate)],
          [
            'Pending',
            lane.pending_messages === 0
              ? 'none'
              : `${count(lane.pending_messages)} (${bytes(lane.pending_bytes)})`,
          ],
          [
            'Oldest pending for',
            lane.pending_messages === 0 ? '–' : duration(lane.oldest_pending_age_seconds),
          ],
          ['Last delivered', <Ago key="at" at={lane.last_delivered_ts} />],
        ]}
      />
      <Facts
        facts={[
          ['Records delivered', count(lane.delivered_records)],
          ...(lane.filtered_records
            ? [['Records filtered out', count(lane.filtered_records)] as [string, string]]
            : []),
          ['Messages skipped', count(lane.skipped_messages)],
          [
            'Parked',
            lane.parked_records ? (
              <ParkedLink key="parked" pipeId={destination.pipe_id} destination={destination} />
            ) : (
              'none'
            ),
          ],
          ['Messages dropped', count(lane.dropped_messages)],
          ['Cursor', `${lane.cursor_seq} of ${lane.head_seq}`],
        ]}
      />
    </Section>
  )
}

/** The fields that are set, with the labels of the form. */
function configFacts({ destination_type: type, destination_config: config }: Destination) {
  const { fields } = wordsOf(type)
  return Object.entries<ConfigField>(fields).flatMap(([key, field]): [label: string, value: string][] => {
    const value = config[key]
    if (value === null || value === undefined || value === '') return []
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
    if (text === '{}') return []
    return [[field.label, field.kind === 'choice' ? (field.options[text] ?? text) : text]]
  })
}

function Config({ destination }: { destination: Destination }) {
  const { columns, flush, rate, concurrency, tls_pin: pin } = destination
  const target = describeTarget(destination)
  return (
    <Section title="Destination">
      <Facts
        facts={[
          ['Target', <Outside key="target" text={target} />],
          ...configFacts(destination)
            .filter(([, value]) => value !== target)
            .map(([label, value]): [string, ReactNode] => [label, <Outside key={label} text={value} />]),
          ['Retry for', duration(destination.destination_max_retry_seconds)],
          [
            'Batches',
            flush === null
              ? 'default'
              : `at most ${counted(flush.max_records, 'record')}, ${bytes(flush.max_bytes)}, ${flush.max_seconds} s`,
          ],
          ['Requests per second', rate === null ? 'no limit' : String(rate.requests_per_second)],
          [
            'On permanent error',
            destination.on_permanent_error === 'park' ? 'park the records' : 'block the lane',
          ],
          ...(concurrency === undefined ? [] : [['Concurrency', String(concurrency)] as const]),
          ...(pin
            ? [
                [
                  'Pinned server key',
                  <span key="pin" title={`since ${exactTime(pin.first_seen_ts)}`}>
                    <code>{pin.sha256.slice(0, 16)}…</code>
                  </span>,
                ] as const,
              ]
            : []),
          [
            'Id',
            <span key="id">
              <Id id={destination.destination_id} />
              <IdCopy id={destination.destination_id} what="the id of the destination" />
            </span>,
          ],
        ]}
      />
      {columns === undefined || columns.length === 0 ? null : (
        <Table
          caption="Columns"
          rows={columns}
          keyOf={(column) => column.column_name}
          columns={[
            { label: 'Column', cell: (column) => <Outside text={column.column_name} /> },
            { label: 'JSON type', cell: (column) => column.column_type },
            {
              label: 'Key',
              cell: ({ source_field: key }) =>
                key === undefined || key === null ? '–' : <Outside text={key} />,
            },
            { label: 'Role', cell: (column) => column.semantic_role ?? '–' },
            { label: 'Required', cell: (column) => (column.nullable ? 'no' : 'yes') },
          ]}
        />
      )}
    </Section>
  )
}
