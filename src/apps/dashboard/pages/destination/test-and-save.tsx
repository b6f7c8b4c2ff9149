/**
 * Tries a destination as the daemon would use it, lists the checks, and saves when they pass or when the user
 * insists.
 */
import { useState } from 'react'
import type { TableColumn } from '../../../../contract/destination.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { DestinationTestBody } from '../../../client/client.ts'
import { api, change } from '../../data/api.ts'
import { Button, Check, formStyles } from '../../ui/controls.tsx'
import { Notice, Section } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './checks.module.css'

type Result = SuccessBody<'testDestination'>

interface Props {
  pipeId: string
  body: DestinationTestBody
  hasSample: boolean
  isSaving: boolean
  saveWord: string
  /** `isForced`: although a check failed; then the transform is not tried again on the way. */
  save: (isForced: boolean) => unknown
  onFailure: (failure: unknown) => void
  /** Receives the columns of the table that a test of a database found. */
  onTableColumns: (columns: readonly TableColumn[] | undefined) => void
}

export function TestAndSave({
  pipeId,
  body,
  hasSample,
  isSaving,
  saveWord,
  save,
  onFailure,
  onTableColumns,
}: Props) {
  const [withSample, setWithSample] = useState(false)
  const [result, setResult] = useState<(Result & { of: string }) | null>(null)
  const [isTesting, setTesting] = useState(false)
  const text = JSON.stringify(body)
  // A result applies only to the form's content when it was tested.
  const current = result?.of === text ? result : null
  const test = async (): Promise<boolean> => {
    setTesting(true)
    onFailure(null)
    try {
      const { body: tested } = await change(() =>
        api.call('testDestination', {
          path: { pipe_id: pipeId },
          body,
          query: { sample: hasSample && withSample },
        }),
      )
      setResult({ ...tested, of: text })
      onTableColumns(tested.table_columns)
      return tested.ok
    } catch (error) {
      setResult(null)
      onFailure(error)
      return false
    } finally {
      setTesting(false)
    }
  }
  const testAndSave = async () => {
    if (current?.ok === true || (await test())) save(false)
  }
  const isBusy = isTesting || isSaving
  return (
    <Section title="Test and save">
      {hasSample ? (
        <Check
          label="Also insert a record, and roll it back"
          hint="The pipe's newest record, or a made-up one."
          checked={withSample}
          onValue={setWithSample}
        />
      ) : null}
      {current === null ? null : <Checks result={current} />}
      <div className={formStyles.actions}>
        <Button look="primary" changes disabled={isBusy} onClick={() => void testAndSave()}>
          {isTesting ? 'Testing …' : isSaving ? 'Saving …' : `Test and ${saveWord}`}
        </Button>
        <Button changes disabled={isBusy} onClick={() => void test()}>
          Test only
        </Button>
        {current?.ok === false ? (
          <Button changes disabled={isBusy} onClick={() => save(true)}>
            {`${saveWord.charAt(0).toUpperCase()}${saveWord.slice(1)} all the same`}
          </Button>
        ) : null}
      </div>
    </Section>
  )
}

function Checks({ result }: { result: Result }) {
  return (
    <>
      <Notice kind={result.ok ? 'good' : 'warn'}>
        {result.ok ? 'Every check passed.' : 'Not every check passed: records would wait until it does.'}
      </Notice>
      <ul className={styles.checks} aria-label="Checks">
        {result.checks.map((check) => (
          <li key={check.name} className={styles.check}>
            <span
              className={check.ok ? styles.good : styles.bad}
              role="img"
              aria-label={check.ok ? 'passed' : 'failed'}
            >
              {check.ok ? '✓' : '✗'}
            </span>
            <span>
              <strong>
                <Outside text={check.name.replaceAll('_', ' ')} />
              </strong>
              : <Outside text={check.message} />
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}
