/** The form of a destination of any type: where records go, their columns, and how they are delivered. */
import type { ReactNode } from 'react'
import { wordsOf } from '../../../../contract/destination-words.ts'
import type { FieldErrors } from '../../ui/failure.tsx'
import { ColumnFields } from './columns.tsx'
import { Connect } from './connect.tsx'
import { type DestinationDraft, hasColumns } from './draft.ts'
import { formFields } from './fields.ts'
import { Review } from './review.tsx'
import { Step } from './step.tsx'
import type { KnownTable } from './table-columns.tsx'
import { isShownOfTransform } from './transform-form.tsx'

interface Props {
  draft: DestinationDraft
  table: KnownTable
  errors: FieldErrors
  /** True for a stored destination. Its secrets are kept if their fields are empty. */
  isStored: boolean
  /** The element that proposes columns. */
  propose: ReactNode
  /** The element that tests the transform. */
  trial: ReactNode
  onChange: (next: Partial<DestinationDraft>) => void
}

export function ConfigForm({ draft, table, errors, isStored, propose, trial, onChange }: Props) {
  const { isDatabase } = wordsOf(draft.type)
  const hasMapping = hasColumns(draft)
  // The first step of a new destination is the choice of its type.
  const numbers = isStored ? [null, null, null] : hasMapping ? [2, 3, 4] : [2, null, 3]
  const [connect = null, columns = null, review = null] = numbers
  return (
    <>
      <Step number={connect} title="Connect">
        <Connect draft={draft} errors={errors} isStored={isStored} onChange={onChange} />
      </Step>
      {hasMapping ? (
        <Step number={columns} title="Columns">
          <ColumnFields
            hasTable={isDatabase}
            columns={draft.columns}
            table={table}
            errors={errors}
            propose={isDatabase ? propose : null}
            onChange={(next) => onChange({ columns: next })}
          />
        </Step>
      ) : null}
      <Step number={review} title="Review">
        <Review draft={draft} errors={errors} isStored={isStored} trial={trial} onChange={onChange} />
      </Step>
    </>
  )
}

const ownFields = [
  'destination_name',
  'destination_max_retry_seconds',
  'concurrency',
  'on_permanent_error',
  'start_from',
]

/** The paths of errors that a field of this form shows. */
export function shownPaths(errors: FieldErrors, draft: DestinationDraft): string[] {
  const keys = formFields(draft.type).map(({ key }) => `destination_config.${key}`)
  return Object.keys(errors).filter(
    (path) =>
      keys.some((key) => path === key || path.startsWith(`${key}.`)) ||
      /^(columns\.\d+\.|flush\.|rate\.)/.test(path) ||
      (!wordsOf(draft.type).isPulled && isShownOfTransform(path, draft.transform)) ||
      ownFields.includes(path),
  )
}
