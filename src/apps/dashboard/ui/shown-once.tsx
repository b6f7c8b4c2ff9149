/** Shows a new secret once, until the user confirms that it is copied. */
import type { ReactNode } from 'react'
import { Button } from './controls.tsx'
import { Dialog } from './dialog.tsx'
import { Code, Notice } from './layout.tsx'

interface Props {
  title: string
  /** Why it cannot be shown again. */
  notice: string
  label: string
  text: string
  onClose: () => void
  /** Further notes for the user. */
  children?: ReactNode
}

export function ShownOnce({ title, notice, label, text, onClose, children }: Props) {
  return (
    <Dialog title={title} open>
      <Notice kind="warn">{notice}</Notice>
      <Code label={label} text={text} />
      {children}
      <div>
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  )
}
