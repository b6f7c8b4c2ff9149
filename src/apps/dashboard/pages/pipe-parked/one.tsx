/** One record that is parked at its pipe: what does the schema not allow, and what must change? */
import { useState } from 'react'
import { Link } from 'wouter'
import type { PipeParkedDetail } from '../../../../contract/pipe-parked.ts'
import { bytes } from '../../../../platform/quantities.ts'
import { Loading } from '../../ui/failure.tsx'
import { Empty, Facts, Notice, Page, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { PipeCrumb } from '../pipe/crumbs.tsx'
import { EditPipeParked } from './edit.tsx'
import { pipeParkedPath, usePipeParked } from './queries.ts'

export function OnePipeParked({ pipeId, parkedId }: { pipeId: string; parkedId: string }) {
  const { data, error } = usePipeParked(pipeId, parkedId)
  /** The message that the record is now. */
  const [msgId, setMsgId] = useState<string | null>(null)
  const list = <Link to={pipeParkedPath(pipeId)}>Parked at the pipe</Link>
  return (
    <Page
      title="Parked record"
      name="Parked record"
      crumbs={
        <>
          <PipeCrumb pipeId={pipeId} /> / {list}
        </>
      }
    >
      {msgId === null ? null : (
        <Notice kind="good" actions={<Link to={pipeParkedPath(pipeId)}>Go to the parked records</Link>}>
          Stored as a new message. <Link to={`/messages/${msgId}`}>Open message</Link>
        </Notice>
      )}
      {data === undefined ? <Loading error={error} lines={10} /> : null}
      {data === null && msgId === null ? (
        <Empty title="This record is not parked">
          <p>It was replayed, a user discarded it, or its retention time ended.</p>
          <Link to={pipeParkedPath(pipeId)}>Go to the parked records</Link>
        </Empty>
      ) : null}
      {data && msgId === null ? (
        <>
          <Details body={data.body} />
          <EditPipeParked pipeId={pipeId} body={data.body} text={data.text} onStored={setMsgId} />
        </>
      ) : null}
    </Page>
  )
}

function Details({ body }: { body: Omit<PipeParkedDetail, 'records'> }) {
  return (
    <>
      <Table
        caption="Errors"
        rows={body.errors.map((one, index) => ({ ...one, index }))}
        keyOf={({ index }) => String(index)}
        columns={[
          { label: 'Path', cell: ({ path }) => <Outside text={path === '' ? '/' : path} /> },
          { label: 'Error', cell: ({ message }) => <Outside text={message} />, isLong: true },
        ]}
      />
      <Facts
        facts={[
          ['Request', body.msg_id],
          ['Record', `#${body.record_index}${body.is_edited ? ', edited' : ''}`],
          ['Received', <Ago key="received" at={body.received_ts} />],
          ['Parked', <Ago key="parked" at={body.parked_ts} />],
          ['Schema', `version ${body.schema_version}`],
          ['Size', bytes(body.record_bytes)],
        ]}
      />
    </>
  )
}
