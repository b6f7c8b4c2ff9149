/** Shows a new key once, until the user confirms that it is copied. */
import type { ReactNode } from 'react'
import { ShownOnce } from '../../ui/shown-once.tsx'

interface Props {
  made: { api_key_name: string; api_key: string }
  onClose: () => void
  /** Further notes for the user. */
  children?: ReactNode
}

export function MadeKey({ made, onClose, children }: Props) {
  return (
    <ShownOnce
      title="Copy the key now"
      notice="The key is shown only once: pipectl stores only its hash."
      label={`Key ${made.api_key_name}`}
      text={made.api_key}
      onClose={onClose}
    >
      {children}
    </ShownOnce>
  )
}
