/** The filter and the steps of a transform. */
import { type TransformOp, transformOps } from '../../../../contract/transform-words.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Choice, TextArea, TextField } from '../../ui/fields.tsx'
import { Notice, Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { type StepDraft, swapped, type TransformDraft, withStep } from './transform-draft.ts'
import styles from './transform-form.module.css'

interface Props {
  transform: TransformDraft
  errors: FieldErrors
  onChange: (next: TransformDraft) => void
}

export function FilterField({ transform, errors, onChange }: Props) {
  return (
    <TextArea
      label="Filter"
      optional
      mono
      hint={'In CEL, e.g. record.status == "paid" && record.total > 10. Empty: all records.'}
      value={transform.filter}
      onValue={(filter) => onChange({ ...transform, filter })}
      error={errors['transform.filter']}
    />
  )
}

export function StepFields({ transform, errors, isStored, onChange }: Props & { isStored: boolean }) {
  const { steps, salt } = transform
  const set = (next: Partial<TransformDraft>) => onChange({ ...transform, ...next })
  const setSteps = (next: readonly StepDraft[]) => set({ steps: next })
  const whole = errors.transform ?? errors['transform.map']
  const hasSalt = steps.some(({ op }) => op === 'mask') || salt !== ''
  return (
    <>
      <div className={styles.head}>
        <h3>Transform</h3>
        <Button changes onClick={() => setSteps(withStep(steps))}>
          Add a step
        </Button>
      </div>
      {whole === undefined ? null : (
        <Notice kind="bad">
          <Outside text={whole} />
        </Notice>
      )}
      {steps.length === 0 ? <Soft>No steps: records are sent unchanged.</Soft> : null}
      <ol className={styles.steps} aria-label="Steps of the map">
        {steps.map((step, index) => (
          <li key={step.id}>
            <Step
              step={step}
              index={index}
              isLast={index === steps.length - 1}
              errors={errors}
              onChange={(next) => setSteps(steps.with(index, { ...step, ...next }))}
              onMove={(at) => setSteps(swapped(steps, at))}
              onRemove={() => setSteps(steps.filter(({ id }) => id !== step.id))}
            />
          </li>
        ))}
      </ol>
      {steps.length === 0 ? null : (
        <Soft>
          Steps run in this order, on the records that the filter keeps. A path is a key, or several keys with
          dots between them: user.address.city. A step ignores a path that does not exist.
        </Soft>
      )}
      {hasSalt ? (
        <TextField
          label="Salt for masking"
          type="password"
          autoComplete="new-password"
          hint="A secret of 8 characters or more that is part of each hash. It is not shown again."
          placeholder={isStored ? 'leave empty to keep it' : undefined}
          value={salt}
          onValue={(text) => set({ salt: text })}
          error={errors['transform.mask_salt']}
        />
      ) : null}
    </>
  )
}

const words: Record<TransformOp, string> = {
  rename: 'rename a key',
  drop: 'drop keys',
  keep: 'keep only keys',
  mask: 'mask values',
  constant: 'set a constant',
  move: 'move to the top level',
}
const ops = transformOps.map((op) => [op, words[op]] as const)

function Step({
  step,
  index,
  isLast,
  errors,
  onChange,
  onMove,
  onRemove,
}: {
  step: StepDraft
  index: number
  isLast: boolean
  errors: FieldErrors
  onChange: (next: Partial<StepDraft>) => void
  /** Swaps the step at that index with the next one. */
  onMove: (at: number) => void
  onRemove: () => void
}) {
  const name = `step ${index + 1}`
  const at = `transform.map.${index}`
  const text = (key: 'from' | 'to' | 'key' | 'value', label: string, hint?: string) => (
    <TextField
      label={label}
      mono
      hint={hint}
      value={step[key]}
      onValue={(value) => onChange({ [key]: value })}
      error={errors[`${at}.${key}`]}
    />
  )
  const own = errors[at]
  return (
    <fieldset className={styles.step} aria-label={`Step ${index + 1}`}>
      <Choice
        label="Step"
        value={step.op}
        options={ops}
        onValue={(op) => onChange({ op })}
        error={own === undefined ? errors[`${at}.op`] : own}
      />
      {step.op === 'rename' ? (
        <>
          {text('from', 'From the key')}
          {text('to', 'To the key')}
        </>
      ) : step.op === 'move' ? (
        <>
          {text('from', 'From the path')}
          {text('to', 'To the key')}
        </>
      ) : step.op === 'constant' ? (
        <>
          {text('key', 'Key')}
          {text('value', 'Value', 'true, 12, null or "12" as in JSON; anything else is text.')}
        </>
      ) : (
        <div className={styles.wide}>
          <TextArea
            label="Paths"
            mono
            hint="One per line."
            value={step.paths}
            onValue={(paths) => onChange({ paths })}
            error={pathErrors(errors, `${at}.paths`)}
          />
        </div>
      )}
      <div className={`${formStyles.actions} ${styles.buttons}`}>
        <Button
          changes
          aria-label={`Move ${name} up`}
          disabled={index === 0}
          onClick={() => onMove(index - 1)}
        >
          ↑
        </Button>
        <Button changes aria-label={`Move ${name} down`} disabled={isLast} onClick={() => onMove(index)}>
          ↓
        </Button>
        <Button changes aria-label={`Remove ${name}`} onClick={onRemove}>
          Remove
        </Button>
      </div>
    </fieldset>
  )
}

/** Errors of the list or of its lines, numbered from 1. */
function pathErrors(errors: FieldErrors, at: string): string | undefined {
  const found = Object.entries(errors)
    .filter(([path]) => path === at || path.startsWith(`${at}.`))
    .map(([path, text]) => (path === at ? text : `Line ${Number(path.slice(at.length + 1)) + 1}: ${text}`))
  return found.length === 0 ? undefined : found.join(' ')
}

/** True if a field of this form shows the error of that path. */
export function isShownOfTransform(path: string, { steps, salt }: TransformDraft): boolean {
  if (path === 'transform' || path === 'transform.filter' || path === 'transform.map') return true
  if (path === 'transform.mask_salt') return salt !== '' || steps.some(({ op }) => op === 'mask')
  const [, index, field] = /^transform\.map\.(\d+)(?:\.([a-z]+)(?:\.\d+)?)?$/.exec(path) ?? []
  const step = steps[Number(index)]
  if (step === undefined) return false
  return field === undefined || field === 'op' || shownFields[step.op].includes(field)
}

const shownFields: Record<TransformOp, readonly string[]> = {
  rename: ['from', 'to'],
  move: ['from', 'to'],
  constant: ['key', 'value'],
  drop: ['paths'],
  keep: ['paths'],
  mask: ['paths'],
}
