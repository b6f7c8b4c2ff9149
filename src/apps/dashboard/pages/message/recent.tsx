/** The stored messages of a pipe, newest first. */
import { useState } from 'react'
import { bytes, count } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { MessageList } from '../../../client/client.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { Button, ButtonLink, formStyles } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { CliTwin, type Column, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { FindMessage } from './find.tsx'
import { useMessages } from './queries.ts'
import { MessageLink, StateOfMessage } from './words.tsx'

type Message = MessageList['messages'][number]

export function RecentMessages({ pipeId, pipeName }: { pipeId: string; pipeName: string }) {
  const [after, setAfter] = useState<number | null>(null)
  const { data, error } = useMessages(pipeId, after)
  return (
    <Section
      title="Recent messages"
      actions={<ButtonLink to={`/messages?pipe=${pipeId}`}>Search messages</ButtonLink>}
    >
      <FindMessage />
      {data === undefined ? (
        <Loading error={error} lines={3} />
      ) : data.messages.length === 0 ? (
        <Soft>No messages are stored: none were sent, or their retention time ended.</Soft>
      ) : (
        <Messages pipeId={pipeId} messages={data.messages} />
      )}
      <div className={formStyles.actions}>
        {after === null ? null : <Button onClick={() => setAfter(null)}>Newest messages</Button>}
        {data === undefined || data.next === null ? null : (
          <Button onClick={() => setAfter(data.next)}>Older messages</Button>
        )}
      </div>
      <CliTwin
        command={command('messages', pipeName, ...(after === null ? [] : ['--after', String(after)]))}
      />
    </Section>
  )
}

function Messages({ pipeId, messages }: { pipeId: string; messages: readonly Message[] }) {
  const lanes = usePipeOverview(pipeId)?.lanes
  const columns: Column<Message>[] = [
    { label: 'Message', cell: (one) => <MessageLink msgId={one.msg_id} /> },
    { label: 'Received', cell: (one) => <Ago at={one.received_ts} /> },
    { label: 'Records', cell: (one) => count(one.records_count), isNumber: true },
    { label: 'Size', cell: (one) => bytes(one.bytes), isNumber: true },
    {
      label: 'Lanes',
      cell: ({ lanes: states }) => {
        const others = states.filter(({ state }) => state !== 'delivered')
        if (states.length === 0) return <Soft>no destination</Soft>
        if (others.length === 0) return <StateOfMessage state="delivered" />
        return others.map(({ destination_id: id, state }) => {
          const lane = lanes?.find((one) => one.destination_id === id)
          return (
            <div key={id}>
              <StateOfMessage state={state} lane={lane?.lane} />{' '}
              <Soft>
                <Outside text={lane === undefined ? id : nameOf(lane)} />
              </Soft>
            </div>
          )
        })
      },
    },
  ]
  return <Table caption="Recent messages" columns={columns} rows={messages} keyOf={(one) => one.msg_id} />
}
