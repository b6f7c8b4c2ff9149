/** What was done, for some seconds, with the command that does the same; and warnings, which stay until they are dismissed. */
import { useSyncExternalStore } from 'react'
import { Link } from 'wouter'
import { Button } from './controls.tsx'
import { Copy } from './copy.tsx'
import { Outside } from './text.tsx'
import styles from './toasts.module.css'

interface Toast {
  id: number
  text: string
  command: string | null
  warning: Warning | null
}

interface Warning {
  /** The id of what it is about: that has one warning, the last. */
  about: string
  link: { to: string; words: string }
}

const shownMs = 8_000
const mostShown = 3
let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

export function say(text: string, command: string | null = null): void {
  const id = add({ text, command, warning: null })
  setTimeout(() => dismiss(id), shownMs)
}

/** It stays on every page, until somebody dismisses it, or null takes its place. */
export function warn(about: string, text: string | null, link: Warning['link']): void {
  set(toasts.filter(({ warning }) => warning?.about !== about))
  if (text !== null) add({ text, command: null, warning: { about, link } })
}

function add(toast: Omit<Toast, 'id'>): number {
  lastId += 1
  const all = [...toasts, { ...toast, id: lastId }]
  const newest = (isWarning: boolean) =>
    all.filter(({ warning }) => (warning !== null) === isWarning).slice(-mostShown)
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
      {shown.map(({ id, text, command, warning }) => (
        <div key={id} className={`${styles.toast} ${warning === null ? '' : styles.warning}`}>
          <span>
            {warning === null ? null : <strong>Warning: </strong>}
            <Outside text={text} />
            {warning === null ? null : (
              <>
                {' '}
                <Link to={warning.link.to}>{warning.link.words}</Link>
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
