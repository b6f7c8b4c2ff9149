/**
 * Tests a destination as the daemon would use it, lists the checks, and saves if they pass or the user insists. A
 * pull destination needs no test.
 */
import { useState } from 'react'
import type { TableColumn } from '../../../../contract/destination.ts'
import { type DestinationType, wordsOf } from '../../../../contract/destination-words.ts'
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
  type: DestinationType
  isSaving: boolean
  /** `isForced`: saves although a check failed. The transform is then not tested again. */
  save: (isForced: boolean) => unknown
  onFailure: (failure: unknown) => void
  /** Receives the columns of the table after the test of a database. */
  onTableColumns: (columns: readonly TableColumn[] | undefined) => void
}

export function TestAndSave({ pipeId, body, type, isSaving, save, onFailure, onTableColumns }: Props) {
  const { isDatabase: hasSample, isPulled } = wordsOf(type)
  const [withSample, setWithSample] = useState(false)
  const [result, setResult] = useState<(Result & { of: string }) | null>(null)
  const [isTesting, setTesting] = useState(false)
  const text = JSON.stringify(body)
  // A result is valid only for the form content that was tested.
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
  if (isPulled) {
    return (
      <div>
        <Button look="primary" changes disabled={isSaving} onClick={() => save(false)}>
          {isSaving ? 'Saving …' : 'Save'}
        </Button>
      </div>
    )
  }
  return (
    <Section title="Test and save">
      {hasSample ? (
        <Check
          label="Also insert a record and roll it back"
          hint="The newest record of the pipe, or a sample."
          checked={withSample}
          onValue={setWithSample}
        />
      ) : null}
      {current === null ? null : <Checks result={current} />}
      <div className={formStyles.actions}>
        <Button look="primary" changes disabled={isBusy} onClick={() => void testAndSave()}>
          {isTesting ? 'Testing …' : isSaving ? 'Saving …' : 'Test and save'}
        </Button>
        <Button changes disabled={isBusy} onClick={() => void test()}>
          Test only
        </Button>
        {current?.ok === false ? (
          <Button changes disabled={isBusy} onClick={() => save(true)}>
            Save anyway
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
        {result.ok
          ? 'Every check passed.'
          : 'Some checks failed. If you save anyway, records stay pending until the destination works.'}
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
