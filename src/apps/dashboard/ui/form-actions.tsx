/** The buttons at the end of a form, with the error of the last attempt beside them. */
import type { ReactNode } from 'react'
import { counted } from '../../../platform/quantities.ts'
import { FailureNotice, fieldErrors, reveal } from './failure.tsx'
import styles from './form-actions.module.css'

interface Props {
  failure: unknown
  /** The paths of errors that fields of the form show. */
  shown?: readonly string[]
  /** A field shows the complete failure, such as a name that is taken. */
  isAtField?: boolean
  /** Shown instead of the failure: another user changed the same resource. */
  conflict?: ReactNode
  /** For forms that are longer than a screen: the buttons stay at its bottom. */
  isSticky?: boolean
  /** The primary button first. */
  children: ReactNode
}

export function FormActions({
  failure,
  shown,
  isAtField = false,
  conflict = null,
  isSticky = false,
  children,
}: Props) {
  const hasFailed = failure !== null && failure !== undefined
  return (
    <>
      {conflict ?? <FailureNotice failure={failure} shown={shown} isAtField={isAtField} />}
      <div className={`${styles.actions} ${isSticky ? styles.sticky : ''}`}>
        {children}
        {isSticky && hasFailed ? <Summary failure={failure} /> : null}
      </div>
    </>
  )
}

/** The notice can be out of sight. A screen reader has announced it already. */
function Summary({ failure }: { failure: unknown }) {
  const errors = Object.keys(fieldErrors(failure)).length
  return (
    <button type="button" className={styles.summary} onClick={(event) => reveal(event.currentTarget)}>
      {errors === 0 ? 'Show the error' : `Correct ${counted(errors, 'field')}`}
    </button>
  )
}
