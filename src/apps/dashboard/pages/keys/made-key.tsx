/** Shows a new key once, until the user confirms that it is copied. */
import type { ReactNode } from 'react'
import { Button } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Code, Notice } from '../../ui/layout.tsx'

interface Props {
  made: { api_key_name: string; api_key: string }
  onClose: () => void
  /** Further notes for the user. */
  children?: ReactNode
}

export function MadeKey({ made, onClose, children }: Props) {
  return (
    <Dialog title="Copy the key now" open>
      <Notice kind="warn">The key is shown only once: pipectl stores only its hash.</Notice>
      <Code label={`Key ${made.api_key_name}`} text={made.api_key} />
      {children}
      <div>
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  )
}
