/** Proposes a table from the pipe's records: the statement to copy or execute, and the mapping for the form. */
import { useState } from 'react'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { counted } from '../../../../platform/quantities.ts'
import { unchecked } from '../../../client/client.ts'
import { api, change } from '../../data/api.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Choice } from '../../ui/fields.tsx'
import { Code, Notice, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './columns.module.css'
import type { ColumnDraft } from './draft.ts'

type Proposal = SuccessBody<'inferTable'>

interface Props {
  pipeId: string
  /** A new destination, or a stored one with the changes of the form. */
  body: object
  onFailure: (failure: unknown) => void
  /** `isNew`: the table was created for the records of the sample. */
  onColumns: (columns: ColumnDraft[], isNew: boolean) => void
}

/** The values of the options that are not keys. */
const generated = '\u0000generated'
const none = '\u0000none'

export function ProposeTable({ pipeId, body, onFailure, onColumns }: Props) {
  const [found, setFound] = useState<(Proposal & { of: string }) | null>(null)
  const [dedupe, setDedupe] = useState(generated)
  const [isBusy, setBusy] = useState(false)
  const of = JSON.stringify(body)
  // A proposal is valid only for the form content from which it was made.
  const proposal = found?.of === of ? found : null
  const ask = async (more: { create_table?: boolean; add_columns?: boolean }, key = dedupe) => {
    setBusy(true)
    onFailure(null)
    try {
      const unique =
        key === none ? { dedupe_id: 'none' as const } : key === generated ? {} : { dedupe_key: key }
      const { body: answer } = await change(() =>
        api.call('inferTable', {
          path: { pipe_id: pipeId },
          body: unchecked<'inferTable'>({ ...body, ...unique, ...more }),
        }),
      )
      setFound({ ...answer, of })
      if (answer.executed.length > 0) map(answer)
    } catch (error) {
      setFound(null)
      onFailure(error)
    } finally {
      setBusy(false)
    }
  }
  const map = ({ columns, missing_columns, executed }: Proposal) => {
    const there = columns.filter(({ column_name }) => !missing_columns.includes(column_name))
    const isNew = executed.some((statement) => statement.startsWith('CREATE TABLE'))
    onColumns(there.map(draftColumn), isNew)
  }
  return (
    <>
      <div className={formStyles.actions}>
        <Button changes isBusy={isBusy} onClick={() => void ask({})}>
          {isBusy ? 'Reading …' : 'Propose columns'}
        </Button>
        <Soft>From the newest records of the pipe. Nothing is created before you confirm it.</Soft>
      </div>
      {proposal === null ? null : (
        <Found
          proposal={proposal}
          dedupe={dedupe}
          isBusy={isBusy}
          onDedupe={(key) => {
            setDedupe(key)
            void ask({}, key)
          }}
          onRun={() => void ask(proposal.table_exists ? { add_columns: true } : { create_table: true })}
          onMap={() => map(proposal)}
        />
      )}
    </>
  )
}

function Found({
  proposal,
  dedupe,
  isBusy,
  onDedupe,
  onRun,
  onMap,
}: {
  proposal: Proposal
  dedupe: string
  isBusy: boolean
  onDedupe: (key: string) => void
  onRun: () => void
  onMap: () => void
}) {
  const { failure, table_exists, ddl, executed, warnings, columns, missing_columns, dedupe_candidates } =
    proposal
  const isDone = executed.length > 0
  const fits = columns.length - missing_columns.length
  const keys = dedupe_candidates.map((key) => [key, `the key ${key}`] as const)
  return (
    <>
      {failure === null ? null : (
        <Notice kind="bad">
          <Outside text={failure.message} />
        </Notice>
      )}
      {isDone ? <Notice kind="good">Done. The columns below are mapped.</Notice> : null}
      {proposal.observations.length === 0 ? null : (
        <>
          <Soft>
            From {counted(proposal.records_seen, 'record')}.{' '}
            {table_exists === true && !isDone ? 'The table exists.' : null}
          </Soft>
          <Table
            caption="Keys of the records"
            rows={proposal.observations}
            keyOf={({ key }) => key}
            columns={[
              { label: 'Key', cell: ({ key }) => <Name text={key} /> },
              { label: 'Seen', cell: ({ seen }) => String(seen), isNumber: true },
              { label: 'JSON types', cell: ({ types }) => types.join(', ') },
              {
                label: 'Column',
                cell: ({ column_name: name }) =>
                  name === null ? (
                    '–'
                  ) : (
                    <Name
                      text={
                        table_exists === true && missing_columns.includes(name) ? `${name} (missing)` : name
                      }
                    />
                  ),
              },
              {
                label: 'Type',
                cell: ({ proposed_type, reason }) => (
                  <>
                    {proposed_type ?? '–'}
                    <div className={formStyles.hint}>{reason}</div>
                  </>
                ),
              },
            ]}
          />
        </>
      )}
      {table_exists === true || isDone ? null : (
        <Choice
          label="Unique id"
          hint="The primary key. A record with the same id replaces the row."
          value={dedupe}
          options={[
            [generated, 'created by pipectl, from message and position'],
            ...keys,
            [none, 'none: a repeated delivery is stored again'],
          ]}
          onValue={onDedupe}
        />
      )}
      {ddl.map((statement) => (
        <Code key={statement} label={isDone ? 'Executed' : 'To be executed'} text={`${statement};`} />
      ))}
      {warnings.map((warning) => (
        <Notice key={warning} kind="warn">
          <Outside text={warning} />
        </Notice>
      ))}
      <div className={formStyles.actions}>
        {ddl.length === 0 || isDone || table_exists === null ? null : (
          <Button look="primary" changes isBusy={isBusy} onClick={onRun}>
            {table_exists ? `Add ${counted(missing_columns.length, 'column')}` : 'Create table'}
          </Button>
        )}
        {table_exists !== true || isDone || fits === 0 ? null : (
          <Button changes isBusy={isBusy} onClick={onMap}>
            {`Map ${counted(fits, 'column')}`}
          </Button>
        )}
      </div>
    </>
  )
}

/** A short name is not broken although the reasons beside it are long. */
function Name({ text }: { text: string }) {
  return (
    <div className={styles.name}>
      <Outside text={text} />
    </div>
  )
}

function draftColumn(column: Proposal['columns'][number], id: number): ColumnDraft {
  return {
    id,
    name: column.column_name,
    type: column.column_type,
    source: column.source_field ?? '',
    role: column.semantic_role ?? '',
    isRequired: !column.nullable,
  }
}
