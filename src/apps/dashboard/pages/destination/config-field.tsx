/** The fields of a config, such as that of a destination, each by its kind. */
import type { ClipboardEvent } from 'react'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Choice, TextArea, TextField } from '../../ui/fields.tsx'
import styles from './connect.module.css'
import type { Connection } from './connection.ts'
import type { FormField, Texts } from './fields.ts'

/** The fields of a config in pairs. The review of the form uses it too. */
export function ConfigFields({
  fields,
  config,
  errors,
  isStored,
  path = 'destination_config',
  connection,
  onConfig,
}: {
  fields: readonly FormField[]
  config: Texts
  errors: FieldErrors
  isStored: boolean
  /** The path of the config in the body. */
  path?: string
  connection?: Pick<Connection, 'readPasted'>
  onConfig: (config: Texts) => void
}) {
  if (fields.length === 0) return null
  return (
    <div className={styles.fields}>
      {fields.map((field) => (
        <div key={field.key} className={field.isPaired ? undefined : styles.whole}>
          <ConfigField
            field={field}
            value={config[field.key] ?? ''}
            error={errorOf(errors, field.key, path)}
            isStored={isStored}
            onValue={(text) => onConfig({ ...config, [field.key]: text })}
            onPasted={(text) => connection?.readPasted(field.key, text) === true}
          />
        </div>
      ))}
    </div>
  )
}

/** An error of a nested value, such as one header, is shown at the field. */
export function errorOf(errors: FieldErrors, key: string, config = 'destination_config'): string | undefined {
  const path = `${config}.${key}`
  const found = Object.entries(errors).filter(([one]) => one === path || one.startsWith(`${path}.`))
  if (found.length === 0) return undefined
  return found
    .map(([one, text]) => (one === path ? text : `${one.slice(path.length + 1)}: ${text}`))
    .join(' ')
}

interface Props {
  field: FormField
  value: string
  error: string | undefined
  /** True for a stored destination. Its secrets are kept if their fields are empty. */
  isStored: boolean
  onValue: (text: string) => void
  /** Receives a pasted text. Returns true if it was a connection string, which is not inserted into the field. */
  onPasted: (text: string) => boolean
}

function ConfigField({ field, value, error, isStored, onValue, onPasted }: Props) {
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
      onPaste={(event) => {
        if (onPasted(pastedText(event))) event.preventDefault()
      }}
    />
  )
}

export function pastedText(event: ClipboardEvent): string {
  return event.clipboardData.getData('text')
}
