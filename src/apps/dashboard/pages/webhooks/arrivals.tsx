/** Whether events arrive, and the requests that were rejected. */
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import type { Pipe } from '../../../../contract/pipe.ts'
import type { PipeSource } from '../../../../contract/pipe-source.ts'
import { hookRefusalNames, hookRefusals, sourceWords } from '../../../../contract/source-words.ts'
import { count } from '../../../../platform/quantities.ts'
import { api } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { Loading } from '../../ui/failure.tsx'
import { Notice, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, exactTime } from '../../ui/text.tsx'
import pipeStyles from '../pipe/pipe.module.css'
import { adviceOf } from './advice.ts'

const rejectedEveryMs = 5_000

/** Waits for the first record since the source was set up. */
export function Arrivals({ pipe, source }: { pipe: Pipe; source: PipeSource }) {
  const last = usePipeOverview(pipe.pipe_id)?.last_ingest_ts ?? null
  const since = source.secrets.map(({ set_ts: at }) => at).sort()[0] ?? pipe.pipe_updated_ts
  const hasArrived = last !== null && Date.parse(last) >= Date.parse(since)
  const first = useFirst(pipe.pipe_id, since, hasArrived)
  const { title } = sourceWords(source.type)
  if (pipe.pipe_status === 'paused')
    return <Notice kind="warn">The pipe is paused: webhooks get 404 until it is resumed.</Notice>
  if (!hasArrived)
    return (
      <Notice>
        <span className={pipeStyles.pulse} aria-hidden="true">
          ●
        </span>{' '}
        Waiting for the first event. Send a test event from {title}: it appears here within a few seconds.
      </Notice>
    )
  return (
    <Notice kind="good" actions={<Link to={`/messages?pipe=${pipe.pipe_id}`}>Show in Messages</Link>}>
      {first === null ? (
        'Events arrive.'
      ) : (
        <>
          The first event arrived at{' '}
          <Link to={`/messages/${first.msg_id}`}>
            <time dateTime={first.received_ts}>{exactTime(first.received_ts)}</time>
          </Link>
          .
        </>
      )}{' '}
      <Soft>
        Last one: <Ago at={last} />.
      </Soft>
    </Notice>
  )
}

/** Null: not read yet, or too long ago to be worth a search. */
function useFirst(pipeId: string, since: string, hasArrived: boolean) {
  const { data } = useQuery({
    queryKey: ['pipe', pipeId, 'first-event', since],
    enabled: hasArrived,
    queryFn: async ({ signal }) => {
      const path = { pipe_id: pipeId }
      const { messages, next } = (await api.call('listMessages', { path, query: { since }, signal })).body
      return next === null ? (messages.at(-1) ?? null) : null
    },
  })
  return data ?? null
}

/** Counts of the last 24 hours, by reason. Bodies are not kept. */
export function Rejected({ pipeId }: { pipeId: string }) {
  const { data, error } = useQuery({
    queryKey: ['pipe', pipeId, 'rejected-hooks'],
    queryFn: async ({ signal }) => {
      const path = { pipe_id: pipeId }
      return (await api.call('getPipeUsage', { path, query: { hours: '24' }, signal })).body.rejected_hooks
    },
    refetchInterval: rejectedEveryMs,
  })
  const reasons = hookRefusalNames.filter((reason) => (data?.[reason] ?? 0) > 0)
  return (
    <Section title="Rejected requests">
      {data === undefined ? (
        <Loading error={error} lines={2} />
      ) : reasons.length === 0 ? (
        <Soft>None in the last 24 hours.</Soft>
      ) : (
        <>
          <Table
            caption="Rejected requests"
            rows={reasons}
            keyOf={(reason) => reason}
            columns={[
              { label: 'Reason', cell: (reason) => reason.replaceAll('_', ' '), isShort: true },
              { label: 'Requests', cell: (reason) => count(data[reason] ?? 0), isNumber: true },
              {
                label: 'What to do',
                cell: (reason) => `${hookRefusals[reason]} ${adviceOf[reason]}`,
                isLong: true,
              },
            ]}
          />
          <Soft>
            In the last 24 hours. Rejected bodies are not kept. Many providers repeat an event that was
            rejected.
          </Soft>
        </>
      )}
    </Section>
  )
}
