/** What was done, for some seconds, with the command that does the same. */
import { useSyncExternalStore } from 'react'
import { Button } from './controls.tsx'
import { Copy } from './copy.tsx'
import { Outside } from './text.tsx'
import styles from './toasts.module.css'

interface Toast {
  id: number
  text: string
  command: string | null
}

const shownMs = 8_000
const mostShown = 3
let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

export function say(text: string, command: string | null = null): void {
  lastId += 1
  const id = lastId
  set([...toasts, { id, text, command }].slice(-mostShown))
  setTimeout(() => dismiss(id), shownMs)
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
      {shown.map(({ id, text, command }) => (
        <div key={id} className={styles.toast}>
          <span>
            <Outside text={text} />
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
