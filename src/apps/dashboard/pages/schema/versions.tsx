/** The last versions of a schema: who changed it, what differs from the text of the form, and back to one of them. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { CliTwin, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { Diff } from '../parked/diff.tsx'
import { textOf } from './draft.ts'

type Version = SuccessBody<'listSchemaVersions'>['versions'][number]

interface Props {
  pipe: Pipe
  /** The text of the form. */
  text: string
  onUse: (text: string) => void
}

export function Versions({ pipe, text, onUse }: Props) {
  const mayChange = useMayChange()
  const [compared, setCompared] = useState<number | null>(null)
  const { data, error } = useQuery({
    queryKey: ['pipe', pipe.pipe_id, 'schema-versions', pipe.pipe_updated_ts],
    queryFn: async ({ signal }) =>
      (await api.call('listSchemaVersions', { path: { pipe_id: pipe.pipe_id }, signal })).body.versions,
  })
  if (data === undefined)
    return (
      <Section title="Versions">
        <Loading error={error} lines={2} />
      </Section>
    )
  if (data.length === 0) return null
  const shown = data.find(({ version }) => version === compared)
  return (
    <Section title="Versions">
      <Table
        caption="Versions of the schema"
        rows={data}
        keyOf={({ version }) => String(version)}
        columns={[
          { label: 'Version', cell: ({ version }) => String(version), isNumber: true },
          { label: 'Changed', cell: ({ changed_ts }) => <Ago at={changed_ts} />, isShort: true },
          { label: 'By', cell: (one) => <Outside text={changedBy(one)} /> },
          {
            label: 'On mismatch',
            cell: (one) => (one.pipe_schema === null ? 'no schema' : one.pipe_schema_on_mismatch),
            isShort: true,
          },
          {
            label: '',
            cell: ({ version }) => (
              <Button
                look="plain"
                aria-pressed={version === compared}
                aria-label={`Compare version ${version}`}
                onClick={() => setCompared(version === compared ? null : version)}
              >
                Compare
              </Button>
            ),
          },
        ]}
      />
      {shown === undefined ? null : (
        <>
          <Soft>From version {shown.version} to the text above:</Soft>
          <Diff before={textOf(shown.pipe_schema)} after={text} />
          {mayChange ? (
            <div className={formStyles.actions}>
              <Button onClick={() => onUse(textOf(shown.pipe_schema))}>Use version {shown.version}</Button>
            </div>
          ) : null}
        </>
      )}
      <CliTwin command={command('pipes', 'schema', 'versions', pipe.pipe_name, '--diff')} />
    </Section>
  )
}

function changedBy({ changed_by: { kind, id, name } }: Version): string {
  return `${kind} ${name ?? id ?? ''}`.trim()
}
