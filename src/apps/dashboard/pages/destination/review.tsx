/** How records are delivered: every setting with its default, and those that are rarely needed folded. */
import type { ReactNode } from 'react'
import { wordsOf } from '../../../../contract/destination-words.ts'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { Fold } from '../../ui/fold.tsx'
import { Soft } from '../../ui/layout.tsx'
import { ConfigFields } from './config-field.tsx'
import styles from './connect.module.css'
import type { DestinationDraft } from './draft.ts'
import { formFields } from './fields.ts'
import { FilterField, StepFields } from './transform-form.tsx'

interface Props {
  draft: DestinationDraft
  errors: FieldErrors
  isStored: boolean
  /** The element that tests the transform. */
  trial: ReactNode
  onChange: (next: Partial<DestinationDraft>) => void
}

export function Review(props: Props) {
  const { draft, errors, isStored, trial, onChange } = props
  const { kind, isPulled } = wordsOf(draft.type)
  const fields = formFields(draft.type).filter(({ place }) => place === 'review')
  return (
    <>
      {isStored ? null : (
        <Choice
          label="Start from"
          value={draft.startFrom}
          options={[
            ['earliest', 'the oldest stored record'],
            ['now', 'now: only new records'],
          ]}
          onValue={(startFrom) => onChange({ startFrom })}
          error={errors.start_from}
        />
      )}
      {isPulled ? null : (
        <>
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
          <FilterField
            transform={draft.transform}
            errors={errors}
            onChange={(transform) => onChange({ transform })}
          />
        </>
      )}
      <ConfigFields
        fields={fields}
        config={draft.config}
        errors={errors}
        isStored={isStored}
        onConfig={(config) => onChange({ config })}
      />
      <TextField
        label="Name"
        optional
        value={draft.name}
        placeholder={isStored ? undefined : kind}
        onValue={(name) => onChange({ name })}
        error={errors.destination_name}
        hint="Unique in the pipe."
      />
      {isPulled ? null : (
        <>
          <Advanced {...props} />
          {trial}
        </>
      )}
    </>
  )
}

const defaultRetrySeconds = '86400'
/** The error paths of the folded settings. */
const advancedErrors =
  /^(transform(\.(map|mask_salt).*)?$|flush|rate|concurrency$|destination_max_retry_seconds$)/

function Advanced({ draft, errors, isStored, onChange }: Props) {
  const isNeeded = Object.keys(errors).some((path) => advancedErrors.test(path)) || hasAdvanced(draft)
  return (
    <Fold title="Transform, batches and retries" isNeeded={isNeeded}>
      <StepFields
        transform={draft.transform}
        errors={errors}
        isStored={isStored}
        onChange={(transform) => onChange({ transform })}
      />
      <h3>Batches and retries</h3>
      <Soft>Empty fields use the limits of the pipe, or the defaults of this type.</Soft>
      <div className={styles.fields}>
        <BatchLimits draft={draft} errors={errors} onChange={onChange} />
        <RequestLimits draft={draft} errors={errors} onChange={onChange} />
        <TextField
          label="Retry for (seconds)"
          inputMode="numeric"
          placeholder={defaultRetrySeconds}
          hint="Afterwards it is retried every 15 minutes. Nothing is dropped."
          value={draft.maxRetrySeconds}
          onValue={(maxRetrySeconds) => onChange({ maxRetrySeconds })}
          error={errors.destination_max_retry_seconds}
        />
      </div>
    </Fold>
  )
}

function hasAdvanced(draft: DestinationDraft): boolean {
  const { transform, flush, rate, concurrency, maxRetrySeconds } = draft
  return (
    transform.steps.length > 0 ||
    !['', defaultRetrySeconds].includes(maxRetrySeconds) ||
    !['', '1'].includes(concurrency) ||
    `${flush.records}${flush.bytes}${flush.seconds}${rate}`.trim() !== ''
  )
}

type Part = Pick<Props, 'draft' | 'errors' | 'onChange'>

function RequestLimits({ draft, errors, onChange }: Part) {
  return (
    <>
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
    </>
  )
}

function BatchLimits({ draft, errors, onChange }: Part) {
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
