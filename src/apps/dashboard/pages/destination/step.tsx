/** A part of the form of a destination. A new destination is created in numbered steps, all on one page. */
import { type ReactNode, useId } from 'react'
import styles from './step.module.css'

export function Step({
  number,
  title,
  actions,
  children,
}: {
  /** Null: the form changes a stored destination. */
  number: number | null
  title: string
  actions?: ReactNode
  children: ReactNode
}) {
  const id = useId()
  return (
    <section className={styles.step} aria-labelledby={id}>
      <div className={styles.head}>
        {number === null ? null : (
          <span className={styles.number} aria-hidden="true">
            {number}
          </span>
        )}
        <h2 id={id}>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  )
}
