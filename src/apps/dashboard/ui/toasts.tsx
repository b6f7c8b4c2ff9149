/**
 * Reports a finished action for some seconds, with the command that does the same; and shows warnings, which stay
 * until they are dismissed.
 */
import { useSyncExternalStore } from 'react'
import { Link } from 'wouter'
import { Button } from './controls.tsx'
import { Copy } from './copy.tsx'
import { Outside } from './text.tsx'
import styles from './toasts.module.css'

export interface ToastLink {
  to: string
  words: string
}

interface Toast {
  id: number
  text: string
  command: string | null
  link: ToastLink | null
  /** For a warning, the id of its subject: each subject has one warning, the last. */
  warns: string | null
}

const shownMs = 8_000
const maxShown = 3
let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

export function say(text: string, command: string | null = null, link: ToastLink | null = null): void {
  const id = add({ text, command, link, warns: null })
  setTimeout(() => dismiss(id), shownMs)
}

/** Stays on every page until the user dismisses it, or a text of null replaces it. */
export function warn(about: string, text: string | null, link: ToastLink): void {
  set(toasts.filter(({ warns }) => warns !== about))
  if (text !== null) add({ text, command: null, link, warns: about })
}

function add(toast: Omit<Toast, 'id'>): number {
  lastId += 1
  const all = [...toasts, { ...toast, id: lastId }]
  const newest = (isWarning: boolean) =>
    all.filter(({ warns }) => (warns !== null) === isWarning).slice(-maxShown)
  set([...newest(true), ...newest(false)])
  return lastId
}

function dismiss(id: number): void {
  set(toasts.filter((one) => one.id !== id))
}

function set(next: readonly Toast[]): void {
  toasts = next
  for (const each of listeners) each()
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (changed) => {
      listeners.add(changed)
      return () => listeners.delete(changed)
    },
    () => toasts,
  )
  return (
    <div className={styles.toasts} role="status">
      {shown.map(({ id, text, command, link, warns }) => (
        <div key={id} className={`${styles.toast} ${warns === null ? '' : styles.warning}`}>
          <span>
            {warns === null ? null : <strong>Warning: </strong>}
            <Outside text={text} />
            {link === null ? null : (
              <>
                {' '}
                <Link to={link.to}>{link.words}</Link>
              </>
            )}
          </span>
          {command === null ? null : <Copy text={command} what={command} label="Copy as CLI" />}
          <Button look="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ✕
          </Button>
        </div>
      ))}
    </div>
  )
}
