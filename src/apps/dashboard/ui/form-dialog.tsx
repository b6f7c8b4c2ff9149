/** Dialogs with a form. They stay open with the typed values until the action succeeds or is cancelled. */
import type { ReactNode } from 'react'
import { Button, formStyles } from './controls.tsx'
import { Dialog } from './dialog.tsx'
import { FormActions } from './form-actions.tsx'
import { CliTwin } from './layout.tsx'

interface FormDialogProps {
  title: ReactNode
  onClose: () => void
  onSubmit: () => void
  failure: unknown
  /** The paths of fields that show their own errors. */
  shown: readonly string[]
  /** A field shows the complete failure. */
  isAtField?: boolean
  /** The button's label, and its label while it runs. */
  confirmLabel: string
  runningLabel: string
  isRunning: boolean
  isDisabled?: boolean
  isDanger?: boolean
  /** False: viewers can do it too. */
  changes?: boolean
  /** The equivalent command. Empty: there is none. */
  command?: string
  /** Fields and explanations. */
  children: ReactNode
}

export function FormDialog(props: FormDialogProps) {
  const { title, onClose, failure, shown, isRunning, isDisabled = false, command = '' } = props
  return (
    <Dialog title={title} open onClose={onClose}>
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          props.onSubmit()
        }}
      >
        {props.children}
        <FormActions failure={failure} shown={shown} isAtField={props.isAtField}>
          <Button
            type="submit"
            look={props.isDanger === true ? 'danger' : 'primary'}
            changes={props.changes ?? true}
            disabled={isDisabled}
            isBusy={isRunning}
          >
            {isRunning ? props.runningLabel : props.confirmLabel}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </FormActions>
        {command === '' ? null : <CliTwin command={command} />}
      </form>
    </Dialog>
  )
}
