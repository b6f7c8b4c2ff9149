/** Queries on the file of a SQLite destination: the tables, a statement, and its rows. A viewer can use it too: it only reads. */
import { useMutation, useQuery } from '@tanstack/react-query'
import { type FormEvent, type KeyboardEvent, useState } from 'react'
import type { Destination } from '../../../../contract/destination.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import type { TableRows } from '../../../client/client.ts'
import { cellTexts, shownCell, uniqueNames } from '../../../client/table-rows.ts'
import { lanePath } from '../../../client/workspace.ts'
import { api, change } from '../../data/api.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../../ui/failure.tsx'
import { TextArea } from '../../ui/fields.tsx'
import { CliTwin, Section, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './query-box.module.css'

/** More rows than a person reads. The command line and the API return up to 10,000. */
const shownRows = 100

export function QueryBox({ destination, pipeName }: { destination: Destination; pipeName: string }) {
  const [sql, setSql] = useState(() => firstQuery(String(destination.destination_config.table)))
  const query = useMutation({
    mutationFn: (text: string) =>
      change(() =>
        api.call('queryDestination', { path: lanePath(destination), body: { sql: text, limit: shownRows } }),
      ),
  })
  const run = (event: FormEvent) => {
    event.preventDefault()
    if (!query.isPending) query.mutate(sql)
  }
  const runByKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run(event)
  }
  return (
    <Section title="Query">
      <Tables destination={destination} />
      <form className={formStyles.form} onSubmit={run} onKeyDown={runByKey}>
        <TextArea
          label="SQL"
          hint="One SELECT on the tables of the file; it only reads. Ctrl Enter runs it."
          value={sql}
          onValue={setSql}
          error={fieldErrors(query.error).sql}
          mono
        />
        <div className={formStyles.actions}>
          <Button type="submit" look="primary" isBusy={query.isPending}>
            {query.isPending ? 'Running …' : 'Run'}
          </Button>
        </div>
      </form>
      <CliTwin command={command('query', destinationName(pipeName, destination), sql)} />
      {fieldErrors(query.error).sql === undefined ? <FailureNotice failure={query.error} /> : null}
      {query.data === undefined ? null : <Rows body={query.data.body} text={query.data.text} />}
    </Section>
  )
}

function firstQuery(table: string): string {
  return `SELECT * FROM "${table.replaceAll('"', '""')}" LIMIT 20`
}

/** Not an error if the file does not exist yet: the first delivery creates it. */
function Tables({ destination }: { destination: Destination }) {
  const { data } = useQuery({
    queryKey: ['pipe', destination.pipe_id, 'tables', destination.destination_id],
    queryFn: async () => (await api.call('listTables', { path: lanePath(destination) })).body.tables,
    retry: false,
  })
  if (data === undefined || data.length === 0) return null
  return (
    <Soft>
      Tables:{' '}
      <Outside
        text={data
          .map(({ table, columns }) => `${table} (${columns.map(({ name }) => name).join(', ')})`)
          .join(', ')}
      />
    </Soft>
  )
}

interface Row {
  index: number
  /** JSON texts. */
  cells: string[]
}

function Rows({ body, text }: { body: TableRows; text: string }) {
  const rows = cellTexts(text).map((cells, index) => ({ index, cells }))
  const labels = uniqueNames(body.columns.map(({ name }, index) => name || `column ${index + 1}`))
  return (
    <>
      <p role="status">
        {counted(rows.length, 'row')} in {count(body.query_ms)} ms.
        {body.truncated_by === null ? '' : ' There are more: use the command.'}
      </p>
      {rows.length === 0 ? null : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and a keyboard must get there
        <section className={styles.scroll} aria-label="Rows" tabIndex={0}>
          <Table<Row>
            caption="Result of the query"
            rows={rows}
            keyOf={({ index }) => String(index)}
            columns={labels.map((label, index) => ({
              label,
              cell: ({ cells }) => <Outside text={shownCell(cells[index] ?? '')} />,
            }))}
          />
        </section>
      )}
    </>
  )
}
