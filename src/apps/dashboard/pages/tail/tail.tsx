/** Shows the records sent to a pipe as they arrive. The tail runs only while this page is open. */
import { useState } from 'react'
import { Link } from 'wouter'
import { conditionIn, meets } from '../../../../contract/record-condition.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { singleLine, valueText } from '../../../client/json-text.ts'
import { isNotFound } from '../../data/api.ts'
import { usePipe } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { TextField } from '../../ui/fields.tsx'
import { CliTwin, type Column, Facts, Notice, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { Marked } from '../../ui/state.tsx'
import { exactTime, Outside } from '../../ui/text.tsx'
import { Gone, PipeCrumb } from '../pipe/crumbs.tsx'
import { shownRows, type TailRow, type TailState, useTail } from './follow.ts'
import styles from './tail.module.css'

const defaultSample = 50
const maxSample = 1_000
const everything = () => true

export function TailPage({ pipeId }: { pipeId: string }) {
  const { data, error } = usePipe(pipeId)
  const [sampleText, setSampleText] = useState(String(defaultSample))
  const [filterText, setFilterText] = useState('')
  const filter = filterOf(filterText)
  const { tail, start, pause, clear } = useTail(pipeId, filter ?? everything)
  const isOn = tail.state !== 'paused' && tail.state !== 'ended'
  if (isNotFound(error) && tail.received === 0 && !isOn && tail.ended === null) return <Gone what="pipe" />
  const sample = /^\d{1,4}$/.test(sampleText) ? Number(sampleText) : 0
  const isSample = sample >= 1 && sample <= maxSample
  const rows = tail.rows.filter(({ text, isCut }) => isCut || (filter ?? everything)(text))
  const name = data?.pipe.pipe_name ?? 'PIPE'
  return (
    <Page title="Live tail" name="Live tail" crumbs={<PipeCrumb pipeId={pipeId} />}>
      <Section title="Watch the records of this pipe">
        <form
          className={styles.controls}
          onSubmit={(event) => {
            event.preventDefault()
            if (!isOn && isSample) start(sample)
          }}
        >
          <TextField
            label="Max records per second"
            inputMode="numeric"
            value={sampleText}
            disabled={isOn}
            error={isSample ? undefined : `must be a whole number from 1 to ${maxSample}`}
            onValue={setSampleText}
          />
          <TextField
            label="Only records where"
            optional
            mono
            placeholder="key=value"
            value={filterText}
            error={filter === null ? 'must be key=value' : undefined}
            onValue={setFilterText}
          />
        </form>
        <div className={formStyles.actions}>
          {isOn ? (
            <Button onClick={pause}>Pause</Button>
          ) : (
            <Button look="primary" disabled={!isSample} onClick={() => start(sample)}>
              Start
            </Button>
          )}
          <Button onClick={clear} disabled={tail.received === 0 && tail.dropped === 0}>
            Clear
          </Button>
        </div>
        <ConnectionNotice state={tail.state} ended={tail.ended} />
        <Facts
          facts={[
            ['State', <State key="state" state={tail.state} />],
            ['Received', count(tail.received)],
            ['Left out', count(tail.dropped)],
            ['Shown', count(rows.length)],
          ]}
        />
        <Soft>
          Shows new records, not earlier ones. Left out: records over the limit per second, and records that
          are too large to show. The newest {counted(shownRows, 'record')} are shown.
        </Soft>
        <CliTwin
          command={command('tail', name, ...(sample === defaultSample ? [] : ['--sample', sampleText]))}
        />
      </Section>
      <Section title="Records, newest first">
        {rows.length === 0 ? (
          <Soft>{isOn ? 'No records yet.' : 'Press Start to watch records.'}</Soft>
        ) : (
          <Table caption="Records" columns={columns} rows={rows} keyOf={({ id }) => id} />
        )}
      </Section>
    </Page>
  )
}

const columns: Column<TailRow>[] = [
  {
    label: 'Message',
    cell: ({ id, msgId }) => (
      <Link className={styles.place} to={`/messages/${msgId}`}>
        {id.replace('.', ' #')}
      </Link>
    ),
  },
  {
    label: 'Received',
    cell: ({ receivedTs }) => (
      <time className={styles.place} dateTime={receivedTs} title={exactTime(receivedTs)}>
        {new Date(receivedTs).toLocaleTimeString()}
      </time>
    ),
  },
  {
    label: 'Record',
    cell: ({ text, isCut }) => (
      <>
        <pre className={styles.record}>
          <Outside text={singleLine(text)} />
        </pre>
        {isCut ? <Soft>… cut: see its message for the rest.</Soft> : null}
      </>
    ),
  },
]

function State({ state }: { state: TailState }) {
  const tones = {
    paused: 'none',
    connecting: 'warn',
    running: 'good',
    reconnecting: 'warn',
    ended: 'off',
  } as const
  return <Marked tone={tones[state]}>{state}</Marked>
}

function ConnectionNotice({ state, ended }: { state: TailState; ended: string | null }) {
  if (state === 'reconnecting')
    return (
      <Notice kind="warn">The connection was lost. Reconnecting, to continue after the last record.</Notice>
    )
  if (state !== 'ended' || ended === null) return null
  return (
    <Notice kind="warn">
      Ended: <Outside text={ended} />
    </Notice>
  )
}

/** The filter of records. Null: the text is not a valid filter. An empty filter matches every record. */
function filterOf(text: string): ((recordText: string) => boolean) | null {
  if (text.trim() === '') return () => true
  const found = conditionIn(text.trim())
  if (found === null) return null
  const condition = { path: found.path.trim(), value: found.value.trim() }
  return (recordText) => meets(recordText, condition, valueText)
}
