/** Dialogs. Radix keeps the focus inside, makes the page behind inert, and closes them on Escape. */
import * as Radix from '@radix-ui/react-dialog'
import { type ReactNode, useRef } from 'react'
import styles from './dialog.module.css'

interface DialogProps {
  title: ReactNode
  open: boolean
  /** Absent: the user cannot close it. */
  onClose?: (() => void) | undefined
  wide?: boolean
  /** At the right edge, over the full height. */
  side?: boolean
  /** Above other dialogs. */
  top?: boolean
  /** Near the top of the window; the title is only read out, and a click outside closes it. */
  palette?: boolean
  children: ReactNode
}

export function Dialog({
  title,
  open,
  onClose,
  wide = false,
  side = false,
  top = false,
  palette = false,
  children,
}: DialogProps) {
  const opener = useRef<Element | null>(null)
  const content = useRef<HTMLDivElement>(null)
  return (
    <Radix.Root open={open} onOpenChange={(isOpen) => (isOpen ? undefined : onClose?.())}>
      <Radix.Portal>
        <Radix.Overlay
          className={`${styles.overlay} ${top ? styles.top : ''} ${palette ? styles.palette : ''} ${side ? styles.beside : ''}`}
        >
          <Radix.Content
            ref={content}
            className={`${styles.content} ${wide ? styles.wide : ''} ${side ? styles.side : ''}`}
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
            onPointerDownOutside={palette ? undefined : (event) => event.preventDefault()}
            onInteractOutside={palette ? undefined : (event) => event.preventDefault()}
          >
            <Radix.Title className={styles.title}>{title}</Radix.Title>
            {children}
          </Radix.Content>
        </Radix.Overlay>
      </Radix.Portal>
    </Radix.Root>
  )
}
