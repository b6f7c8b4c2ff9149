/**
 * Settings that are rarely needed. A fold opens by itself when one of its settings has an error or a value that is not
 * its default. It never closes by itself, so that nothing disappears while the user types.
 */
import { type ReactNode, useState } from 'react'
import styles from './fold.module.css'

export function Fold({
  title,
  about,
  isNeeded,
  children,
}: {
  title: string
  /** Describes the content, also while it is closed. */
  about?: ReactNode
  isNeeded: boolean
  children: ReactNode
}) {
  const [isOpen, setOpen] = useState(isNeeded)
  const [wasNeeded, setWasNeeded] = useState(isNeeded)
  if (isNeeded !== wasNeeded) {
    setWasNeeded(isNeeded)
    if (isNeeded) setOpen(true)
  }
  return (
    <details className={styles.fold} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span className={styles.title}>{title}</span>
        {about === undefined ? null : <span className={styles.about}>{about}</span>}
      </summary>
      <div className={styles.inside}>{children}</div>
    </details>
  )
}
