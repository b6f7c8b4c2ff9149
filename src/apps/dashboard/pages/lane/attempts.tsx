/** The delivery attempts of a lane, and the request and response of one of them. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { DeliveryAttempt } from '../../../../contract/attempts.ts'
import type { Destination } from '../../../../contract/destination.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { attemptOutcome, attemptTook } from '../../../client/attempts.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { destinationEveryMs } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Check } from '../../ui/fields.tsx'
import { CliTwin, Code, Facts, Section, Soft, Table } from '../../ui/layout.tsx'
import { Marked } from '../../ui/state.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'

/** The first page is read again and again; older ones do not change. */
function useAttempts(
  { pipe_id, destination_id }: Pick<Destination, 'pipe_id' | 'destination_id'>,
  { isFailedOnly, before }: { isFailedOnly: boolean; before: number | null },
) {
  const query = {
    limit: '10',
    ...(isFailedOnly ? { outcome: 'failed' } : {}),
    ...(before === null ? {} : { before: String(before) }),
  }
  return useQuery({
    queryKey: ['pipe', pipe_id, 'attempts', destination_id, query],
    queryFn: async ({ signal }) =>
      (await api.call('listAttempts', { path: { pipe_id, destination_id }, query, signal })).body,
    refetchInterval: before === null ? destinationEveryMs : false,
    placeholderData: keepPreviousData,
  })
}

export function AttemptsSection({ destination, pipeName }: { destination: Destination; pipeName: string }) {
  const [isFailedOnly, setFailedOnly] = useState(false)
  const [before, setBefore] = useState<number | null>(null)
  const [shown, setShown] = useState<DeliveryAttempt | null>(null)
  const { data } = useAttempts(destination, { isFailedOnly, before })
  if (data === undefined) return null
  const name = destinationName(pipeName, destination)
  return (
    <Section
      title="Attempts"
      actions={
        <Check
          label="Only failures"
          checked={isFailedOnly}
          onValue={(value) => {
            setFailedOnly(value)
            setBefore(null)
          }}
        />
      }
    >
      {data.attempts.length === 0 ? (
        <Soft>
          {isFailedOnly ? 'No attempt failed in the last 7 days.' : 'No attempts in the last 24 hours.'}
        </Soft>
      ) : (
        <Table
          caption="Attempts"
          rows={data.attempts}
          keyOf={({ attempt_no }) => String(attempt_no)}
          columns={[
            { label: 'Began', cell: ({ attempt_ts }) => <Ago at={attempt_ts} />, isShort: true },
            { label: 'Outcome', cell: (one) => <Outcome attempt={one} />, isShort: true },
            { label: 'Took', cell: (one) => attemptTook(one), isNumber: true },
            { label: 'Records', cell: ({ records }) => count(records), isNumber: true },
            {
              label: 'Error',
              cell: ({ error }) => (error === null ? '–' : <Outside text={error.message} />),
              isLong: true,
            },
            {
              label: '',
              cell: (one) => (
                <Button aria-label={`Show attempt ${one.attempt_no}`} onClick={() => setShown(one)}>
                  Show
                </Button>
              ),
            },
          ]}
        />
      )}
      <div className={formStyles.actions}>
        {before === null ? null : <Button onClick={() => setBefore(null)}>Newest attempts</Button>}
        {data.next === null ? null : <Button onClick={() => setBefore(data.next)}>Older attempts</Button>}
      </div>
      <CliTwin command={command('attempts', name, ...(isFailedOnly ? ['--failed'] : []))} />
      {shown === null ? null : <Attempt attempt={shown} name={name} onClose={() => setShown(null)} />}
    </Section>
  )
}

function Outcome({ attempt }: { attempt: DeliveryAttempt }) {
  return <Marked tone={attempt.outcome === 'delivered' ? 'good' : 'bad'}>{attemptOutcome(attempt)}</Marked>
}

function Attempt({
  attempt,
  name,
  onClose,
}: {
  attempt: DeliveryAttempt
  name: string
  onClose: () => void
}) {
  const { attempt_no: no, error, request, response } = attempt
  const { first_seq: first, last_seq: last } = attempt
  return (
    <Dialog title={`Attempt ${no}`} open wide onClose={onClose}>
      {error === null ? null : (
        <p>
          <Outside text={error.message} />
        </p>
      )}
      <Facts
        facts={[
          ['Outcome', <Outcome key="outcome" attempt={attempt} />],
          ['Began', exactTime(attempt.attempt_ts)],
          ['Took', attemptTook(attempt)],
          ['Records', `${counted(attempt.records, 'record')}, ${bytes(attempt.bytes)}`],
          ['Stored', count(attempt.stored_records)],
          ['stream_seq', first === last ? String(first) : `${first} to ${last}`],
          ['Attempt at this batch', String(attempt.batch_attempt)],
          ['Batch', <code key="batch">{attempt.batch_id}</code>],
        ]}
      />
      {request === null ? null : (
        <Code label="Request" text={lines(`${request.method} ${request.url}`, request.headers)} />
      )}
      {response === null ? null : (
        <Code
          label="Response"
          text={`${lines(String(response.status), response.headers)}\n\n${response.excerpt}`.trimEnd()}
        />
      )}
      {request !== null && response === null ? <Soft>No response was received.</Soft> : null}
      <CliTwin command={command('attempts', name, String(no))} />
      <div className={formStyles.actions}>
        <Button data-first-focus onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  )
}

function lines(first: string, headers: Record<string, string>): string {
  return [first, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\n')
}
