/** Maps keys of records to columns. */
import type { ReactNode } from 'react'
import type { ColumnMapping } from '../../../../contract/destination.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Check, Choice, TextField } from '../../ui/fields.tsx'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './columns.module.css'
import type { ColumnDraft } from './draft.ts'
import { type KnownTable, TableColumns, typeIn } from './table-columns.tsx'

const types = ['string', 'number', 'boolean', 'object', 'array', 'null'] as const
const roles: readonly (readonly [ColumnDraft['role'], string])[] = [
  ['', 'value'],
  ['dedupe_id', 'unique id'],
  ['record_ts', 'record time'],
  ['received_at', 'arrival time'],
]

const unmapped = { name: '', type: 'string', source: '', role: '', isRequired: false } as const

export function ColumnFields({
  hasTable,
  columns,
  table,
  errors,
  propose,
  onChange,
}: {
  /** False: these are the columns of a Parquet object. */
  hasTable: boolean
  /** The element that proposes columns. */
  propose: ReactNode
  columns: readonly ColumnDraft[]
  table: KnownTable
  errors: FieldErrors
  onChange: (columns: ColumnDraft[]) => void
}) {
  const set = (id: number, next: Partial<ColumnDraft>) =>
    onChange(columns.map((one) => (one.id === id ? { ...one, ...next } : one)))
  const add = (more: readonly Partial<ColumnDraft>[]) => {
    const id = Math.max(-1, ...columns.map((one) => one.id)) + 1
    const added = more.map((one, index) => ({ ...unmapped, ...one, id: id + index }))
    onChange([...columns, ...added])
  }
  return (
    <>
      <Soft>
        {hasTable
          ? 'Without mapped columns, each key goes to the column of the same name, and other keys are left out.'
          : 'A Parquet object needs at least one column. Keys without a column are left out.'}
      </Soft>
      {propose}
      <div className={styles.rows}>
        {columns.map((column, index) => (
          <Row
            key={column.id}
            column={column}
            index={index}
            tableType={typeIn(table, column.name)}
            errors={errors}
            onChange={(next) => set(column.id, next)}
            onRemove={() => onChange(columns.filter((one) => one.id !== column.id))}
          />
        ))}
      </div>
      <div className={formStyles.actions}>
        <Button changes onClick={() => add([{}])}>
          Map a column
        </Button>
      </div>
      {columns.length === 0 ? null : (
        <Soft>
          {hasTable
            ? 'A record whose unique id is already in the table replaces that row, so a record that is sent twice is stored once. '
            : 'A number is a 64-bit float. A number that would lose digits is rejected: use a column of strings for it. '}
          Required: a record without that key is rejected when it is sent. Without a key, record time and
          arrival time are the time at which pipectl received the record.
        </Soft>
      )}
      <TableColumns table={table} mapped={columns} onMap={add} />
    </>
  )
}

function Row({
  column,
  index,
  tableType,
  errors,
  onChange,
  onRemove,
}: {
  column: ColumnDraft
  index: number
  /** The type of the column in the table, if known. */
  tableType: string | undefined
  errors: FieldErrors
  onChange: (next: Partial<ColumnDraft>) => void
  onRemove: () => void
}) {
  const error = (key: keyof ColumnMapping) => errors[`columns.${index}.${key}`]
  return (
    <fieldset className={styles.row} aria-label={`Column ${index + 1}`}>
      <TextField
        label="Column"
        mono
        value={column.name}
        onValue={(name) => onChange({ name })}
        error={error('column_name')}
      />
      <Choice
        label="JSON type"
        value={column.type}
        options={types.map((type) => [type, type] as const)}
        onValue={(type) => onChange({ type })}
        error={error('column_type')}
      />
      <TextField
        label="Key of the record"
        mono
        placeholder={column.role === 'dedupe_id' ? 'created by pipectl' : column.name}
        value={column.source}
        onValue={(source) => onChange({ source })}
        error={error('source_field')}
      />
      <Choice
        label="Role"
        value={column.role}
        options={roles}
        onValue={(role) => onChange({ role })}
        error={error('semantic_role')}
      />
      <Check
        label="Required"
        checked={column.isRequired}
        onValue={(isRequired) => onChange({ isRequired })}
        error={error('nullable')}
      />
      <Button changes aria-label={`Remove column ${column.name || index + 1}`} onClick={onRemove}>
        ✕
      </Button>
      {tableType === undefined ? null : (
        <div className={styles.inTable}>
          <Soft>
            In the table: <Outside text={tableType} />
          </Soft>
        </div>
      )}
    </fieldset>
  )
}
