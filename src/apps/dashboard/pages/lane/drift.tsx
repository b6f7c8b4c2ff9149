/** Record keys without a column, each with a button that adds a column to the table and the mapping. */
import { useState } from 'react'
import type { Destination } from '../../../../contract/destination.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useChange, useDrift } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'

export function DriftSection({ destination, pipeName }: { destination: Destination; pipeName: string }) {
  const { pipe_id: pipeId, destination_id: id } = destination
  const { data: drift } = useDrift(pipeId, id)
  const [adding, setAdding] = useState<string | null>(null)
  const add = useChange((key: string) => addColumn(destination, key))
  if (drift === undefined || drift.mapping !== 'columns' || drift.records_seen === 0) return null
  const found = drift.keys.find(({ key }) => key === adding)
  const type = found === undefined || found.type === 'null' ? 'string' : found.type
  const twin = command(
    ...['destinations', 'update', destinationName(pipeName, destination)],
    ...['--add-column', `${adding}:${type}`, '--alter-table'],
  )
  return (
    <Section title="Keys without a column">
      <Soft>
        {drift.keys.length === 0 ? 'Every key has a column. ' : 'No column stores the keys below. '}
        Checked: {counted(drift.records_seen, 'record')}.
        {drift.other_keys > 0 ? ` Other keys occurred ${count(drift.other_keys)} times.` : null}
      </Soft>
      {drift.keys.length === 0 ? null : (
        <Table
          caption="Keys without a column"
          rows={drift.keys}
          keyOf={({ key }) => key}
          columns={[
            { label: 'Key', cell: ({ key }) => <Outside text={key} /> },
            { label: 'Records', cell: ({ records }) => count(records), isNumber: true },
            { label: 'JSON type', cell: (one) => one.type },
            { label: 'Example', cell: ({ example }) => <Outside text={example} /> },
            { label: 'Last seen', cell: ({ last_seen_ts }) => <Ago at={last_seen_ts} /> },
            {
              label: '',
              cell: ({ key }) => (
                <Button changes aria-label={`Add a column for ${key}`} onClick={() => setAdding(key)}>
                  Add column …
                </Button>
              ),
            },
          ]}
        />
      )}
      {drift.unfilled_columns.length === 0 ? null : (
        <Soft>
          Columns that no record filled: <Outside text={drift.unfilled_columns.join(', ')} />.
        </Soft>
      )}
      {adding === null ? null : (
        <Confirm
          title="Add a column"
          confirmLabel="Add column"
          isDanger={false}
          command={twin}
          run={async () => {
            await add.mutateAsync(adding)
            say('Column added. New records fill it.', twin)
          }}
          onClose={() => setAdding(null)}
        >
          If the table has no column for <Outside text={adding} />, one is added with a type that fits the
          newest records. The key is then mapped to it.
        </Confirm>
      )}
    </Section>
  )
}

async function addColumn(destination: Destination, key: string): Promise<void> {
  const { pipe_id: pipeId, destination_id: id } = destination
  const { body } = await api.call('inferTable', {
    path: { pipe_id: pipeId },
    body: {
      destination_id: id,
      keys: [key],
      add_columns: true,
    },
  })
  if (body.failure !== null) throw new Error(`${body.failure.message} ${body.ddl.join('; ')}`)
  const added = body.columns.filter(({ source_field, column_name }) => (source_field ?? column_name) === key)
  if (added.length === 0)
    throw new Error(body.warnings.join(' ') || 'No column could be proposed for this key.')
  // Reads the current columns, because another user may have changed them.
  const { columns = [] } = (
    await api.call('getDestination', { path: { pipe_id: pipeId, destination_id: id } })
  ).body.destination
  await api.call('updateDestination', {
    path: { pipe_id: pipeId, destination_id: id },
    body: { columns: [...columns, ...added] },
  })
}
