/** Buttons, and the classes of forms. */
import type { ComponentProps, ReactNode } from 'react'
import { Link } from 'wouter'
import { useMayChange } from '../data/session-context.ts'
import styles from './controls.module.css'

type Look = 'normal' | 'primary' | 'danger' | 'plain'
const classOf = (look: Look) => `${styles.button} ${look === 'normal' ? '' : (styles[look] ?? '')}`

interface ButtonProps extends Omit<ComponentProps<'button'>, 'className'> {
  look?: Look
  /** The control changes something: it is disabled for viewers, with the reason. */
  changes?: boolean
  /** Its request is running. It does nothing then, and is not disabled, because it would lose the focus. */
  isBusy?: boolean
}

export function Button({
  look = 'normal',
  changes = false,
  isBusy = false,
  type = 'button',
  disabled,
  title,
  onClick,
  ...rest
}: ButtonProps) {
  const mayChange = useMayChange()
  const isLocked = changes && !mayChange
  return (
    <button
      {...rest}
      aria-disabled={isBusy || undefined}
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
      type={type}
      className={classOf(look)}
      disabled={disabled || isLocked}
      title={isLocked ? 'Only admins can change this.' : title}
    />
  )
}

/** A link that looks like a button. A link to a change is not shown to viewers. */
export function ButtonLink({
  to,
  look = 'normal',
  changes = false,
  children,
}: {
  to: string
  look?: Look
  changes?: boolean
  children: ReactNode
}) {
  const mayChange = useMayChange()
  if (changes && !mayChange) return null
  return (
    <Link to={to} className={classOf(look)}>
      {children}
    </Link>
  )
}

export const formStyles = {
  form: styles.form ?? '',
  pair: styles.pair ?? '',
  actions: styles.actions ?? '',
  hint: styles.hint ?? '',
  mono: styles.mono ?? '',
}
