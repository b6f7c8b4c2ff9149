/** One message: its content, its state in each lane, and the next step. */
import { Link } from 'wouter'
import { count } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { MessageDetail } from '../../../client/client.ts'
import { errorLine } from '../../../client/lane-error.ts'
import { isNotFound } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { Loading } from '../../ui/failure.tsx'
import { LaneLink } from '../../ui/lane-words.tsx'
import { CliTwin, type Column, Empty, Facts, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { PipeCrumb } from '../pipe/crumbs.tsx'
import { FindMessage } from './find.tsx'
import { Next } from './next.tsx'
import { useMessage } from './queries.ts'
import { Records } from './records.tsx'
import { StateOfMessage } from './words.tsx'

// Both pages share most of their code: as one chunk they add fewer names to the first page.
export { MessagesPage } from './messages.tsx'

type MessageLane = MessageDetail['lanes'][number]

export function MessagePage({ msgId }: { msgId: string }) {
  const { data, error } = useMessage(msgId)
  if (isNotFound(error)) return <NoMessage msgId={msgId} />
  return (
    <Page
      title="Message"
      name="Message"
      crumbs={
        data === undefined ? (
          <Link to="/messages">Messages</Link>
        ) : (
          <>
            <PipeCrumb pipeId={data.body.pipe_id} /> / Message
          </>
        )
      }
    >
      {data !== undefined ? (
        <Message body={data.body} text={data.text} />
      ) : (
        <Loading error={error} lines={10} />
      )}
    </Page>
  )
}

function NoMessage({ msgId }: { msgId: string }) {
  return (
    <Page title="Message" name="Message not found" crumbs={<Link to="/messages">Messages</Link>}>
      <Empty title="There is no such message, or it is no longer kept">
        <p>
          <code>
            <Outside text={msgId} />
          </code>
        </p>
        <p>
          A msg_id is the UUID in the response to an ingest request. A message is kept until every lane has
          delivered it, and then for the retention time of delivered messages.
        </p>
        <FindMessage />
      </Empty>
    </Page>
  )
}

function Message({ body, text }: { body: MessageDetail; text: string }) {
  const pipe = usePipeOverview(body.pipe_id)
  return (
    <>
      <Section title="Message">
        <Facts
          facts={[
            ['msg_id', <code key="id">{body.msg_id}</code>],
            [
              'Pipe',
              <Link key="pipe" to={`/pipes/${body.pipe_id}`}>
                <Outside text={pipe?.pipe_name ?? body.pipe_id} />
              </Link>,
            ],
            ['Received', <Ago key="at" at={body.received_ts} />],
            ['stream_seq', count(body.stream_seq)],
            ['Records', count(body.records_count)],
          ]}
        />
        <CliTwin command={command('why', body.msg_id)} />
      </Section>
      <Section title="Delivery">
        {body.lanes.length === 0 ? (
          <Soft>The pipe had no destination when the message was received.</Soft>
        ) : (
          <Lanes body={body} />
        )}
      </Section>
      <Section title="Records">
        <Records body={body} text={text} />
      </Section>
    </>
  )
}

function Lanes({ body }: { body: MessageDetail }) {
  const { pipe_id: pipeId, msg_id: msgId } = body
  const lanes = usePipeOverview(pipeId)?.lanes
  const laneOf = ({ destination_id: id }: MessageLane) => lanes?.find((one) => one.destination_id === id)
  const columns: Column<MessageLane>[] = [
    {
      label: 'Lane',
      cell: (lane) => {
        const destination = laneOf(lane)
        return destination === undefined ? (
          <code>{lane.destination_id}</code>
        ) : (
          <LaneLink pipeId={pipeId} destination={destination} />
        )
      },
    },
    {
      label: 'State',
      cell: (lane) => <StateOfMessage state={lane.state} lane={laneOf(lane)?.lane} />,
    },
    {
      label: 'Delivered',
      cell: ({ state, delivered_ts: at }) =>
        state === 'delivered' ? <Ago at={at} never="time unknown" /> : '–',
    },
    { label: 'Batch', cell: ({ batch_id: id }) => (id === null ? '–' : <code>{id}</code>) },
    {
      label: 'Attempts',
      // The number of attempts is no longer stored after very many later batches.
      cell: ({ state, attempts }) => (state === 'delivered' && attempts === 0 ? '–' : count(attempts)),
      isNumber: true,
    },
    {
      label: 'Last error',
      cell: ({ last_error: error }) => (error === null ? '–' : <Outside text={errorLine(error)} />),
    },
    {
      label: 'Next step',
      cell: (lane) => (
        <Next pipeId={pipeId} msgId={msgId} lane={lane} type={laneOf(lane)?.destination_type} />
      ),
    },
  ]
  return <Table caption="Lanes" columns={columns} rows={body.lanes} keyOf={({ destination_id: id }) => id} />
}
