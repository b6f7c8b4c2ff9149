/**
 * Tests a destination as the daemon would use it, lists the checks, and saves if they pass or the user insists. A
 * pull destination needs no test.
 */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { TableColumn } from '../../../../contract/destination.ts'
import { type DestinationType, wordsOf } from '../../../../contract/destination-words.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { DestinationTestBody } from '../../../client/client.ts'
import { api, change } from '../../data/api.ts'
import { Button } from '../../ui/controls.tsx'
import { Check } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { Notice } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './checks.module.css'

type Result = SuccessBody<'testDestination'>

interface Props {
  pipeId: string
  body: DestinationTestBody
  type: DestinationType
  isSaving: boolean
  failure: unknown
  /** The paths of errors that fields show. */
  shown: readonly string[]
  conflict?: ReactNode
  /** Other buttons of the form. */
  children?: ReactNode
  /** `isForced`: saves although a check failed. The transform is then not tested again. */
  save: (isForced: boolean) => unknown
  onFailure: (failure: unknown) => void
  /** Receives the columns of the table after the test of a database. */
  onTableColumns: (columns: readonly TableColumn[] | undefined) => void
}

export function TestAndSave(props: Props) {
  const { type, isSaving, save, failure, shown, conflict, children } = props
  const { isDatabase: hasSample, isPulled } = wordsOf(type)
  const [withSample, setWithSample] = useState(false)
  const { current, isTesting, test } = useTest(props, hasSample && withSample)
  const testAndSave = async () => {
    if (isPulled || current?.ok === true || (await test())) save(false)
  }
  const isBusy = isTesting || isSaving
  const label = isTesting ? 'Testing …' : isSaving ? 'Saving …' : isPulled ? 'Save' : 'Test and save'
  return (
    <>
      {hasSample ? (
        <Check
          label="Also insert a record and roll it back"
          hint="The test inserts the newest record of the pipe, or a sample."
          checked={withSample}
          onValue={setWithSample}
        />
      ) : null}
      {current === null ? null : <Checks result={current} />}
      <FormActions failure={failure} shown={shown} conflict={conflict} isSticky>
        <Button look="primary" changes isBusy={isBusy} onClick={() => void testAndSave()}>
          {label}
        </Button>
        {isPulled ? null : (
          <Button changes isBusy={isBusy} onClick={() => void test()}>
            Test only
          </Button>
        )}
        {current?.ok === false ? (
          <Button changes isBusy={isBusy} onClick={() => save(true)}>
            Save anyway
          </Button>
        ) : null}
        {children}
      </FormActions>
    </>
  )
}

function useTest({ pipeId, body, onFailure, onTableColumns }: Props, withSample: boolean) {
  const [result, setResult] = useState<(Result & { of: string }) | null>(null)
  const [isTesting, setTesting] = useState(false)
  const text = JSON.stringify(body)
  const test = async (): Promise<boolean> => {
    setTesting(true)
    onFailure(null)
    try {
      const { body: tested } = await change(() =>
        api.call('testDestination', { path: { pipe_id: pipeId }, body, query: { sample: withSample } }),
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
  // A result is valid only for the form content that was tested.
  return { current: result?.of === text ? result : null, isTesting, test }
}

/** Scrolled into view, because the button that was pressed stays on the screen. */
function Checks({ result }: { result: Result }) {
  const list = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: each result is shown once
  useEffect(() => {
    list.current?.scrollIntoView({ block: 'nearest' })
  }, [result])
  return (
    <div ref={list} className={styles.result}>
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
    </div>
  )
}
