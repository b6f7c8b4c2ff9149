/** One parked record: why was it rejected, and what must change for the destination to accept it? */
import { useState } from 'react'
import { Link } from 'wouter'
import type { ParkedDetail } from '../../../../contract/parked.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { errorWords, placeWords, type ReplayOutcome } from '../../../client/parked.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { Loading } from '../../ui/failure.tsx'
import { Empty, Facts, Notice, Page, Section, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { MessageLink } from '../message/words.tsx'
import { LaneCrumb, parkedPath } from './crumbs.tsx'
import { EditRecord } from './edit-record.tsx'
import { useParked } from './queries.ts'

export function ParkedPage(params: LaneRef & { parkedId: string }) {
  const { parkedId, ...place } = params
  const { data, error } = useParked(place, parkedId)
  const [outcome, setOutcome] = useState<ReplayOutcome | null>(null)
  return (
    <Page
      title="Parked record"
      name={data ? `Parked record ${placeWords(data.body)}` : 'Parked record'}
      crumbs={<LaneCrumb place={place} withList />}
    >
      {outcome === null ? null : <Outcome outcome={outcome} place={place} />}
      {data === undefined ? <Loading error={error} lines={10} /> : null}
      {data === null && outcome === null ? <NotParked place={place} /> : null}
      {data && outcome?.kind !== 'stored' ? (
        <>
          <Details body={data.body} />
          <EditRecord place={place} body={data.body} text={data.text} onOutcome={setOutcome} />
          <EarlierFailures history={data.body.history} />
        </>
      ) : null}
    </Page>
  )
}

function NotParked({ place }: { place: LaneRef }) {
  return (
    <Empty title="This record is not parked">
      <p>It was replayed and stored, a user discarded it, or its retention time ended.</p>
      <Link to={parkedPath(place)}>Go to the parked records</Link>
    </Empty>
  )
}

function Outcome({ outcome, place }: { outcome: ReplayOutcome; place: LaneRef }) {
  switch (outcome.kind) {
    case 'stored':
      return (
        <Notice kind="good" actions={<Link to={parkedPath(place)}>Go to the parked records</Link>}>
          Stored: the destination accepted it.
        </Notice>
      )
    case 'failed':
      return (
        <Notice kind="bad">
          Failed again: <Outside text={errorWords(outcome.error)} />
        </Notice>
      )
    case 'waiting':
      return <Notice>The replay is waiting in the lane. This page shows its result.</Notice>
    case 'left':
      return <Notice kind="warn">The record was not replayed.</Notice>
  }
}

function Details({ body }: { body: Omit<ParkedDetail, 'records'> }) {
  return (
    <>
      <Notice kind="warn">
        {body.reason === 'skipped' ? 'Skipped. The destination reported: ' : 'Rejected: '}
        <Outside text={errorWords(body.error)} />
      </Notice>
      <Facts
        facts={[
          ['Message', <MessageLink key="id" msgId={body.msg_id} />],
          ['Record', body.record_index === null ? 'the whole message' : placeWords(body)],
          ['Parked', <Ago key="at" at={body.parked_ts} />],
          ['Attempts', `${count(body.attempts)}, including ${counted(body.replays, 'replay')}`],
          ['Records', count(body.records_count)],
        ]}
      />
    </>
  )
}

function EarlierFailures({ history }: Pick<ParkedDetail, 'history'>) {
  if (history.length === 0) return null
  return (
    <Section title="Earlier failures">
      <Table
        caption="Earlier failures"
        rows={history.map((one, at) => ({ ...one, at }))}
        keyOf={(one) => String(one.at)}
        columns={[
          { label: 'When', cell: (one) => <Ago at={one.failed_ts} /> },
          { label: 'Error', cell: (one) => <Outside text={errorWords(one.error)} />, isLong: true },
        ]}
      />
    </Section>
  )
}
