/** Dialogs. Radix keeps the focus inside, makes the page behind inert, and closes them on Escape. */
import * as Radix from '@radix-ui/react-dialog'
import { type ReactNode, useRef, useState } from 'react'
import { Button, formStyles } from './controls.tsx'
import styles from './dialog.module.css'
import { FailureNotice } from './failure.tsx'
import { CliTwin } from './layout.tsx'

interface DialogProps {
  title: ReactNode
  open: boolean
  /** Absent: the user cannot close it. */
  onClose?: (() => void) | undefined
  wide?: boolean
  /** Above other dialogs. */
  top?: boolean
  children: ReactNode
}

export function Dialog({ title, open, onClose, wide = false, top = false, children }: DialogProps) {
  const opener = useRef<Element | null>(null)
  const content = useRef<HTMLDivElement>(null)
  return (
    <Radix.Root open={open} onOpenChange={(isOpen) => (isOpen ? undefined : onClose?.())}>
      <Radix.Portal>
        <Radix.Overlay className={`${styles.overlay} ${top ? styles.top : ''}`}>
          <Radix.Content
            ref={content}
            className={`${styles.content} ${wide ? styles.wide : ''}`}
            aria-describedby={undefined}
            // Radix does not know the element that opened the dialog, so the focus is restored here.
            onOpenAutoFocus={(event) => {
              opener.current = document.activeElement
              const first = content.current?.querySelector<HTMLElement>('[data-first-focus]')
              if (first === null || first === undefined) return
              event.preventDefault()
              first.focus()
            }}
            onCloseAutoFocus={(event) => {
              event.preventDefault()
              if (opener.current instanceof HTMLElement) opener.current.focus()
            }}
            // A click outside must not discard typed text.
            onPointerDownOutside={(event) => event.preventDefault()}
            onInteractOutside={(event) => event.preventDefault()}
          >
            <Radix.Title className={styles.title}>{title}</Radix.Title>
            {children}
          </Radix.Content>
        </Radix.Overlay>
      </Radix.Portal>
    </Radix.Root>
  )
}

interface FormDialogProps {
  title: ReactNode
  onClose: () => void
  onSubmit: () => void
  failure: unknown
  /** The paths of fields that show their own errors. */
  shown: readonly string[]
  /** The button's label, and its label while it runs. */
  deed: string
  running: string
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

/** A dialog with a form. It stays open with the typed values until the action succeeds or is cancelled. */
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
        <FailureNotice failure={failure} shown={shown} />
        {props.children}
        <div className={formStyles.actions}>
          <Button
            type="submit"
            look={props.isDanger === true ? 'danger' : 'primary'}
            changes={props.changes ?? true}
            disabled={isRunning || isDisabled}
          >
            {isRunning ? props.running : props.deed}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
        {command === '' ? null : <CliTwin command={command} />}
      </form>
    </Dialog>
  )
}

interface ConfirmProps {
  title: ReactNode
  /** Describes the effect, with numbers. */
  children: ReactNode
  /** The button's label: a verb for the action. */
  deed: string
  isDanger?: boolean
  command: string
  run: () => Promise<unknown>
  onClose: () => void
}

/** Asks for confirmation. Stays open and shows the error of the API if the action fails. */
export function Confirm({ title, children, deed, isDanger = true, command, run, onClose }: ConfirmProps) {
  const [isRunning, setRunning] = useState(false)
  const [failure, setFailure] = useState<unknown>(null)
  const act = async () => {
    setRunning(true)
    setFailure(null)
    try {
      await run()
      onClose()
    } catch (error) {
      setFailure(error)
      setRunning(false)
    }
  }
  return (
    <Dialog title={title} open onClose={onClose}>
      <div>{children}</div>
      {failure === null ? null : <FailureNotice failure={failure} />}
      <div className={formStyles.actions}>
        <Button
          look={isDanger ? 'danger' : 'primary'}
          changes
          disabled={isRunning}
          onClick={() => void act()}
        >
          {isRunning ? 'Working …' : deed}
        </Button>
        {/* Enter must not trigger an action that cannot be undone. */}
        <Button onClick={onClose} data-first-focus={isDanger || undefined}>
          Cancel
        </Button>
      </div>
      <CliTwin command={command} />
    </Dialog>
  )
}
