/** The message that blocks a lane: the rejected record first, the others page by page. */
import type { Destination } from '../../../../contract/destination.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Facts, Section, Soft } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { MessageLink } from '../message/words.tsx'
import { type RecordLine, recordsOf } from './failing-field.ts'
import styles from './lane.module.css'

export interface BlockingProps {
  /** The original text of the response, in which numbers keep all digits. */
  response: string
  body: SuccessBody<'getBlockingMessage'>
  /** The index of the first shown record, from 0. */
  from: number
  onFrom(from: number): void
  destination: Destination
}

const recordsAtOnce = 20

export function Blocking({ response, body, from, onFrom, destination }: BlockingProps) {
  const { failing, next } = body
  const named = { error: destination.lane.last_error?.message ?? null, failing, from }
  const records = recordsOf(response, named, destination.columns ?? [])
  const isMarked = records.some((lines) => lines.some((line) => line.isNamed))
  const isRefused = (index: number) => from + index === failing?.record_index
  return (
    <Section title="The blocking message">
      <Facts
        facts={[
          ['Message', <MessageLink key="id" msgId={body.msg_id} />],
          ['stream_seq', count(body.stream_seq)],
          ['Received', <Ago key="at" at={body.received_ts} />],
          ['Records', count(body.records_count)],
          ...(failing === null ? [] : [['Rejected', <Rejected key="rejected" failing={failing} />] as const]),
        ]}
      />
      {isMarked ? <Soft>Highlighted: the field that the error names.</Soft> : null}
      <div className={styles.records}>
        {records.map((lines, index) => (
          <details
            // biome-ignore lint/suspicious/noArrayIndexKey: a record is identified by its position in the message
            key={from + index}
            open={failing === null ? index === 0 || lines.some((line) => line.isNamed) : isRefused(index)}
          >
            <summary>
              Record {count(from + index + 1)}
              {isRefused(index) ? ', rejected' : ''}
            </summary>
            <RecordText lines={lines} />
          </details>
        ))}
      </div>
      {next === null && from === 0 ? null : (
        <div className={formStyles.actions}>
          <Soft>
            Records {count(from + 1)} to {count(from + records.length)} of{' '}
            {counted(body.records_count, 'record')}.
          </Soft>
          <Button onClick={() => onFrom(Math.max(0, from - recordsAtOnce))} disabled={from === 0}>
            Earlier records
          </Button>
          <Button onClick={() => onFrom(next ?? from)} disabled={next === null}>
            Later records
          </Button>
        </div>
      )}
    </Section>
  )
}

function Rejected({ failing }: { failing: NonNullable<BlockingProps['body']['failing']> }) {
  return (
    <>
      Record {count(failing.record_index + 1)}
      {failing.column === null ? null : (
        <>
          , column <Outside text={failing.column} />
        </>
      )}
      {failing.value === null ? null : (
        <>
          , value <Outside text={failing.value} />
        </>
      )}
    </>
  )
}

/** The original text, line by line. */
function RecordText({ lines }: { lines: readonly RecordLine[] }) {
  return (
    <pre className={styles.record}>
      {lines.map((line, at) =>
        line.isNamed ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
          <mark key={at} className={styles.named}>
            <Outside text={line.text} />
          </mark>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
          <Outside key={at} text={line.text} />
        ),
      )}
    </pre>
  )
}
