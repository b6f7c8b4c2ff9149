/** The fields of a destination of any type: target, columns and delivery settings. */
import type { ReactNode } from 'react'
import { wordsOf } from '../../../../contract/destination-words.ts'
import { Check, Choice, formStyles, TextArea, TextField } from '../../ui/controls.tsx'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Section, Soft } from '../../ui/layout.tsx'
import { ColumnFields } from './columns.tsx'
import { type DestinationDraft, hasColumns } from './draft.ts'
import { type FormField, formFields } from './fields.ts'
import type { KnownTable } from './table-columns.tsx'
import { isShownOfTransform, TransformForm } from './transform-form.tsx'

interface Props {
  draft: DestinationDraft
  table: KnownTable
  errors: FieldErrors
  /** True for a stored destination. Its secrets are kept if their fields are empty. */
  isStored: boolean
  /** The element that tests the transform. */
  trial: ReactNode
  onChange: (next: Partial<DestinationDraft>) => void
}

export function ConfigForm({ draft, table, errors, isStored, trial, onChange }: Props) {
  const fields = formFields(draft.type)
  const field = (one: FormField) => (
    <Field
      key={one.key}
      field={one}
      value={draft.config[one.key] ?? ''}
      error={errorOf(errors, one.key)}
      isStored={isStored}
      onValue={(text) => onChange({ config: { ...draft.config, [one.key]: text } })}
    />
  )
  const more = fields.filter((one) => one.isAdvanced)
  return (
    <>
      <Section title="Target">
        <TextField
          label="Name"
          optional
          value={draft.name}
          onValue={(name) => onChange({ name })}
          error={errors.destination_name}
          hint="Must be unique in the pipe, e.g. warehouse."
        />
        <div className={formStyles.pair}>{fields.filter((one) => !one.isAdvanced).map(field)}</div>
        {more.length === 0 ? null : (
          <details open={more.some((one) => errorOf(errors, one.key) !== undefined) || undefined}>
            <summary>Advanced</summary>
            <div className={formStyles.pair}>{more.map(field)}</div>
          </details>
        )}
      </Section>
      {hasColumns(draft) ? (
        <ColumnFields
          hasTable={wordsOf(draft.type).isDatabase}
          columns={draft.columns}
          table={table}
          errors={errors}
          onChange={(columns) => onChange({ columns })}
        />
      ) : null}
      {wordsOf(draft.type).isPulled ? null : (
        <>
          <TransformForm
            transform={draft.transform}
            errors={errors}
            isStored={isStored}
            trial={trial}
            onChange={(transform) => onChange({ transform })}
          />
          <Delivery draft={draft} errors={errors} onChange={onChange} isStored={isStored} />
        </>
      )}
      {isStored ? null : (
        <Section title="Start">
          <Check
            label="Deliver from the beginning: also the records that the pipe still keeps"
            hint="If not selected, delivery starts with the next record."
            checked={draft.startFrom === 'earliest'}
            onValue={(all) => onChange({ startFrom: all ? 'earliest' : 'now' })}
            error={errors.start_from}
          />
        </Section>
      )}
    </>
  )
}

/** An error of a nested value, such as one header, is shown at the field. */
function errorOf(errors: FieldErrors, key: string): string | undefined {
  const path = `destination_config.${key}`
  const found = Object.entries(errors).filter(([one]) => one === path || one.startsWith(`${path}.`))
  if (found.length === 0) return undefined
  return found
    .map(([one, text]) => (one === path ? text : `${one.slice(path.length + 1)}: ${text}`))
    .join(' ')
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

function Field({
  field,
  value,
  error,
  isStored,
  onValue,
}: {
  field: FormField
  value: string
  error: string | undefined
  isStored: boolean
  onValue: (text: string) => void
}) {
  const { label, hint, kind, options, isNeeded, placeholder } = field
  const common = { label, hint, error, value, onValue }
  if (kind === 'choice') return <Choice {...common} options={options} />
  if (kind === 'headers' || kind === 'lines') return <TextArea {...common} mono optional />
  if (kind === 'secret') {
    return (
      <TextField
        {...common}
        type="password"
        autoComplete="new-password"
        optional={!isStored && !isNeeded}
        placeholder={isStored ? 'leave empty to keep it' : placeholder}
      />
    )
  }
  return (
    <TextField
      {...common}
      required={isNeeded}
      optional={!isNeeded}
      placeholder={placeholder}
      inputMode={kind === 'number' ? 'numeric' : undefined}
    />
  )
}

function Delivery({ draft, errors, onChange, isStored }: Omit<Props, 'table' | 'trial'>) {
  return (
    <Section title="Delivery">
      <Soft>Empty fields use the limits of the pipe, or the defaults of this type.</Soft>
      <div className={formStyles.pair}>
        <BatchLimits draft={draft} errors={errors} onChange={onChange} />
        <TextField
          label="Max requests per second"
          inputMode="decimal"
          placeholder="no limit"
          value={draft.rate}
          onValue={(rate) => onChange({ rate })}
          error={errors['rate.requests_per_second'] ?? errors.rate}
        />
        {wordsOf(draft.type).hasConcurrency ? (
          <TextField
            label="Concurrency"
            inputMode="numeric"
            placeholder="1"
            hint="Requests in flight, 1 to 32. More than 1 keeps the order only between batches."
            value={draft.concurrency}
            onValue={(concurrency) => onChange({ concurrency })}
            error={errors.concurrency}
          />
        ) : null}
        <TextField
          label="Retry for (seconds)"
          inputMode="numeric"
          placeholder={isStored ? undefined : '86400'}
          hint="After this time a failing lane is retried every 15 minutes. Nothing is dropped."
          value={draft.maxRetrySeconds}
          onValue={(maxRetrySeconds) => onChange({ maxRetrySeconds })}
          error={errors.destination_max_retry_seconds}
        />
        {wordsOf(draft.type).isPulled ? null : (
          <Choice
            label="On permanent error"
            hint="You can correct and replay parked records; the records behind them are delivered meanwhile."
            value={draft.onPermanentError}
            options={[
              ['block', 'block the lane'],
              ['park', 'park the records, and continue'],
            ]}
            onValue={(onPermanentError) => onChange({ onPermanentError })}
            error={errors.on_permanent_error}
          />
        )}
      </div>
    </Section>
  )
}

function BatchLimits({ draft, errors, onChange }: Pick<Props, 'draft' | 'errors' | 'onChange'>) {
  const { flush } = draft
  const set = (next: Partial<typeof flush>) => onChange({ flush: { ...flush, ...next } })
  const usual = wordsOf(draft.type).defaultFlush
  const limits = [
    ['Max records per batch', 'records', usual.maxRecords, errors['flush.max_records'] ?? errors.flush],
    ['Max bytes per batch', 'bytes', usual.maxBytes, errors['flush.max_bytes']],
    ['Max seconds per batch', 'seconds', usual.maxSeconds, errors['flush.max_seconds']],
  ] as const
  return limits.map(([label, key, standard, error]) => (
    <TextField
      key={key}
      label={label}
      inputMode="numeric"
      placeholder={String(standard)}
      value={flush[key]}
      onValue={(value) => set({ [key]: value })}
      error={error}
    />
  ))
}
