/** One field of a destination's config, by its kind. */
import type { ClipboardEvent } from 'react'
import { Choice, TextArea, TextField } from '../../ui/fields.tsx'
import type { FormField } from './fields.ts'

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

export function ConfigField({ field, value, error, isStored, onValue, onPasted }: Props) {
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
