/**
 * Tests the transform of the form with the newest records: counts the kept records and shows some before and after.
 */
import { type ReactNode, useState } from 'react'
import type { Destination } from '../../../../contract/destination.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { TrialOutcome } from '../../../../contract/transform-trial.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { tryTransformCommand } from '../../../client/cli-twin.ts'
import { elementTexts, indented, valueText } from '../../../client/json-text.ts'
import { api, change } from '../../data/api.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../../ui/failure.tsx'
import { Choice } from '../../ui/fields.tsx'
import { CliTwin, Soft } from '../../ui/layout.tsx'
import { Marked } from '../../ui/state.tsx'
import { Outside } from '../../ui/text.tsx'
import { givenTransformOf, type TransformDraft } from './transform-draft.ts'
import styles from './transform-trial.module.css'

type Trial = SuccessBody<'tryTransform'>
type TriedRecord = Trial['records'][number]

interface Props {
  pipeId: string
  pipeName: string
  draft: TransformDraft
  /** Null for a new destination. */
  stored: Destination | null
  /** Receives failures, with errors at fields of the form. */
  onFailure: (failure: unknown) => void
}

const limit = 5
const choices: readonly (readonly [TrialOutcome | 'all', string])[] = [
  ['all', 'all'],
  ['kept', 'kept'],
  ['filtered', 'filtered out'],
  ['failed', 'failed'],
]

export function TransformTrial({ pipeId, pipeName, draft, stored, onFailure }: Props) {
  const [show, setShow] = useState<TrialOutcome | 'all'>('all')
  const [tried, setTried] = useState<{ trial: Trial; text: string; of: string } | null>(null)
  const [failure, setFailure] = useState<unknown>(null)
  const [isTrying, setTrying] = useState(false)
  const transform = givenTransformOf(draft)
  if (transform === null) return null
  const shown = { limit, ...(show === 'all' ? {} : { only: show }) }
  const body = { transform, ...shown, ...(stored === null ? {} : { destination_id: stored.destination_id }) }
  const of = JSON.stringify(body)
  const ask = async () => {
    if (isTrying) return
    setTrying(true)
    setFailure(null)
    onFailure(null)
    try {
      const { body: trial, text } = await change(() =>
        api.call('tryTransform', { path: { pipe_id: pipeId }, body }),
      )
      setTried({ trial, text, of })
    } catch (error) {
      setTried(null)
      if (Object.keys(fieldErrors(error)).length > 0) onFailure(error)
      else setFailure(error)
    } finally {
      setTrying(false)
    }
  }
  return (
    <div className={styles.trial}>
      <div className={styles.controls}>
        <Choice label="Records to show" value={show} options={choices} onValue={setShow} />
        {/* Not disabled while it runs, because it would lose the focus. */}
        <Button changes onClick={() => void ask()}>
          {isTrying ? 'Trying …' : 'Try on the newest records'}
        </Button>
      </div>
      <FailureNotice failure={failure} />
      <div role="status">
        {tried === null ? (
          <Soft>Tries up to 1,000 records, for 5 seconds at most. Nothing is stored or delivered.</Soft>
        ) : (
          countsIn(tried.trial)
        )}
      </div>
      {tried === null || tried.of === of ? null : (
        <Soft>The form has changed: this result is for the earlier version.</Soft>
      )}
      {tried === null ? null : <Found trial={tried.trial} text={tried.text} />}
      <CliTwin command={tryTransformCommand(pipeName, stored, transform, shown)} />
    </div>
  )
}

function countsIn({ is_complete, records_seen, kept, filtered, failed }: Trial): string {
  if (records_seen === 0)
    return is_complete
      ? 'The pipe has no records to try it on.'
      : 'Time ran out before the first record was tried.'
  const counts = `Of the ${counted(records_seen, 'newest record')}: ${count(kept)} kept, ${count(filtered)} filtered out, ${count(failed)} failed.`
  return is_complete ? counts : `${counts} Time ran out: the others were not tried.`
}

function Found({ trial, text }: { trial: Trial; text: string }) {
  const { faults, records, records_seen, truncated } = trial
  const texts = elementTexts(valueText(text, 'records') ?? '[]')
  return (
    <>
      {faults.length === 0 ? null : (
        <ul aria-label="Failures">
          {faults.map((fault) => (
            <li key={`${fault.path} ${fault.code} ${fault.message}`}>
              Fails on {counted(fault.records, 'record')}: <Fault fault={fault} />
            </li>
          ))}
        </ul>
      )}
      {records.length === 0 ? (
        records_seen === 0 ? null : (
          <Soft>No record has this result.</Soft>
        )
      ) : (
        <ol className={styles.records} aria-label="Records before and after">
          {records.map((record, at) => (
            <li key={`${record.msg_id} ${record.record_index}`} className={styles.record}>
              <One record={record} text={texts[at] ?? '{}'} />
            </li>
          ))}
        </ol>
      )}
      {truncated ? <Soft>The newest {records.length} are shown; there are more.</Soft> : null}
    </>
  )
}

function Fault({ fault: { path, message } }: { fault: Pick<Trial['faults'][number], 'path' | 'message'> }) {
  const step = /^transform\.map\.(\d+)$/.exec(path)?.[1]
  const where =
    path === 'transform.filter' ? 'Filter: ' : step === undefined ? '' : `Step ${Number(step) + 1}: `
  return <Outside text={`${where}${message}`} />
}

const outcomes = {
  kept: <Marked tone="good">kept</Marked>,
  filtered: <Marked tone="none">filtered out</Marked>,
  failed: <Marked tone="bad">failed</Marked>,
}

function One({ record, text }: { record: TriedRecord; text: string }) {
  const { msg_id, record_index, outcome, error, too_large } = record
  const [before, after] = ['before', 'after'].map((key) => indented(valueText(text, key) ?? 'null'))
  return (
    <>
      <div className={formStyles.actions}>
        {outcomes[outcome]}
        <span className={styles.place}>
          Record {count(record_index + 1)} of message <code>{msg_id}</code>
        </span>
      </div>
      {error === null ? null : (
        <div className={styles.error}>
          <Fault fault={error} />
        </div>
      )}
      {too_large ? (
        <Soft>Too large to show here.</Soft>
      ) : (
        <div className={styles.panes}>
          <Pane label="Before">
            <Json text={before ?? ''} />
          </Pane>
          {outcome === 'kept' ? (
            <Pane label="After">
              {after === before ? <Soft>Unchanged.</Soft> : <Json text={after ?? ''} />}
            </Pane>
          ) : null}
        </div>
      )}
    </>
  )
}

function Pane({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={styles.pane}>
      <div className={styles.label}>{label}</div>
      {children}
    </div>
  )
}

/** A longer text scrolls and must be reachable by keyboard. A shorter one must not be a tab stop. */
const most = { lines: 14, characters: 1_000 }

function Json({ text }: { text: string }) {
  const isLong = text.length > most.characters || text.split('\n').length > most.lines
  return (
    <pre className={`${styles.json} ${isLong ? styles.long : ''}`} tabIndex={isLong ? 0 : undefined}>
      <Outside text={text} lines />
    </pre>
  )
}
