/** Checks the schema of the form against the newest stored records, before it is saved; and counts what did not match. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { mismatchResults } from '../../../../contract/schema-words.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { api, change } from '../../data/api.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { CliTwin, Facts, Section, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'

type Result = SuccessBody<'checkSchema'>

const checkedRecords = 10_000
const countedEveryMs = 5_000

export function CheckStored({ pipe, schema }: { pipe: Pipe; schema: Record<string, unknown> }) {
  const [checked, setChecked] = useState<{ result: Result; of: string } | null>(null)
  const [failure, setFailure] = useState<unknown>(null)
  const [isChecking, setChecking] = useState(false)
  const of = JSON.stringify(schema)
  const check = async () => {
    if (isChecking) return
    setChecking(true)
    setFailure(null)
    try {
      const body = { schema, records: checkedRecords }
      const path = { pipe_id: pipe.pipe_id }
      setChecked({ result: (await change(() => api.call('checkSchema', { path, body }))).body, of })
    } catch (error) {
      setChecked(null)
      setFailure(error)
    } finally {
      setChecking(false)
    }
  }
  return (
    <Section title="Check stored records">
      <div className={formStyles.actions}>
        {/* Not disabled while it checks, because it would lose the focus. */}
        <Button onClick={() => void check()}>{isChecking ? 'Checking …' : 'Check the newest records'}</Button>
      </div>
      <FailureNotice failure={failure} />
      <div role="status">
        <Soft>
          {checked === null ? 'Shows what this schema would not have accepted.' : resultOf(checked.result)}
        </Soft>
      </div>
      {checked === null || checked.of === of ? null : (
        <Soft>The schema has changed: this result is for the earlier text.</Soft>
      )}
      {checked === null || checked.result.errors.length === 0 ? null : <Errors result={checked.result} />}
      <CliTwin
        command={command(
          ...['pipes', 'schema', 'check', pipe.pipe_name, '--schema', 'schema.json'],
          ...['--stored', String(checkedRecords)],
        )}
      />
    </Section>
  )
}

function resultOf({ records_seen, mismatching }: Result): string {
  if (records_seen === 0) return 'The pipe has no records yet.'
  const all = counted(records_seen, 'newest record')
  return mismatching === 0 ? `All of the ${all} match.` : `${count(mismatching)} of the ${all} do not match.`
}

function Errors({ result }: { result: Result }) {
  return (
    <Table
      caption="Errors of stored records"
      rows={result.errors}
      keyOf={({ path, message }) => `${path} ${message}`}
      columns={[
        { label: 'Path', cell: ({ path }) => <Outside text={path === '' ? '/' : path} /> },
        { label: 'Error', cell: ({ message }) => <Outside text={message} />, isLong: true },
        { label: 'Records', cell: ({ records }) => count(records), isNumber: true },
      ]}
    />
  )
}

/** Nothing is shown while every record matches. */
export function MismatchCounts({ pipeId }: { pipeId: string }) {
  const { data } = useQuery({
    queryKey: ['pipe', pipeId, 'schema-mismatches'],
    queryFn: async ({ signal }) => {
      const path = { pipe_id: pipeId }
      const { body } = await api.call('getPipeUsage', { path, query: { hours: '24' }, signal })
      return body.schema_mismatches
    },
    refetchInterval: countedEveryMs,
  })
  const shown = mismatchResults.filter((result) => (data?.[result] ?? 0) > 0)
  if (data === undefined || shown.length === 0) return null
  return (
    <Section title="Records that did not match, last 24 hours">
      <Facts facts={shown.map((result) => [result, count(data[result] ?? 0)] as const)} />
    </Section>
  )
}
