/** Fields of forms. Errors come from the API and are shown at their field. The first page has none, so they are not part of it. */
import { type ComponentProps, type ReactNode, useId } from 'react'
import styles from './controls.module.css'
import { Outside } from './text.tsx'

interface Described {
  label: string
  hint?: ReactNode
  error?: string | undefined
  optional?: boolean
}

type TextFieldProps = Described &
  Omit<ComponentProps<'input'>, 'className' | 'onChange' | 'value'> & {
    value: string
    onValue: (value: string) => void
    mono?: boolean
    /** Shows dots instead of the text. */
    isConcealed?: boolean
  }

export function TextField({
  label,
  hint,
  error,
  optional,
  onValue,
  mono = false,
  isConcealed = false,
  ...rest
}: TextFieldProps) {
  return (
    <Labelled label={label} hint={hint} error={error} optional={optional ?? false}>
      {(described) => (
        <input
          autoComplete="off"
          spellCheck={false}
          {...rest}
          {...described}
          className={`${styles.input} ${mono ? styles.mono : ''} ${isConcealed ? styles.concealed : ''}`}
          onChange={(event) => onValue(event.target.value)}
        />
      )}
    </Labelled>
  )
}

export function TextArea({
  label,
  hint,
  error,
  optional,
  value,
  onValue,
  mono = false,
}: Described & { value: string; onValue: (value: string) => void; mono?: boolean }) {
  return (
    <Labelled label={label} hint={hint} error={error} optional={optional ?? false}>
      {(described) => (
        <textarea
          {...described}
          value={value}
          spellCheck={false}
          className={`${styles.input} ${mono ? styles.mono : ''}`}
          onChange={(event) => onValue(event.target.value)}
        />
      )}
    </Labelled>
  )
}

export function Choice<T extends string>({
  label,
  hint,
  error,
  value,
  options,
  onValue,
}: Described & { value: T; options: readonly (readonly [T, string])[]; onValue: (value: T) => void }) {
  return (
    <Labelled label={label} hint={hint} error={error} optional={false}>
      {(described) => (
        <select
          {...described}
          className={styles.input}
          value={value}
          onChange={(event) => onValue(event.target.value as T)}
        >
          {options.map(([one, words]) => (
            <option key={one} value={one}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  )
}

export function Check({
  label,
  hint,
  error,
  checked,
  onValue,
}: Omit<Described, 'optional' | 'label'> & {
  label: ReactNode
  checked: boolean
  onValue: (checked: boolean) => void
}) {
  const id = useId()
  return (
    <div>
      <label className={styles.check}>
        <input
          type="checkbox"
          checked={checked}
          aria-invalid={error === undefined ? undefined : true}
          aria-describedby={hint === undefined ? undefined : id}
          onChange={(event) => onValue(event.target.checked)}
        />
        <span>
          {label}
          {hint === undefined ? null : (
            <span id={id} className={styles.hint}>
              <br />
              {hint}
            </span>
          )}
        </span>
      </label>
      {error === undefined ? null : <ErrorText text={error} />}
    </div>
  )
}

function Labelled({
  label,
  hint,
  error,
  optional,
  children,
}: Described & {
  children: (described: {
    id: string
    'aria-invalid': boolean | undefined
    'aria-describedby': string | undefined
  }) => ReactNode
}) {
  const id = useId()
  const described = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`]
    .filter(Boolean)
    .join(' ')
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={styles.label}>
        {label}
        {optional ? <span className={styles.optional}> (optional)</span> : null}
      </label>
      {children({
        id,
        'aria-invalid': error === undefined ? undefined : true,
        'aria-describedby': described === '' ? undefined : described,
      })}
      {hint === undefined ? null : (
        <div id={`${id}-hint`} className={styles.hint}>
          {hint}
        </div>
      )}
      {error === undefined ? null : <ErrorText text={error} id={`${id}-error`} />}
    </div>
  )
}

function ErrorText({ text, id }: { text: string; id?: string }) {
  return (
    <div className={styles.error} id={id}>
      <Outside text={text} />
    </div>
  )
}
