/**
 * One clock for everything on the page, updated once a second. It shows the service's time, because its times are
 * compared with it.
 */
import { useSyncExternalStore } from 'react'

let skewMs = 0
let nowMs = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** The duration of a request is negligible; a computer clock that is wrong by an hour is not. */
export function setServiceTime(serviceMs: number): void {
  skewMs = serviceMs - Date.now()
}

export function useNow(): number {
  return useSyncExternalStore(listen, () => nowMs)
}

/** Everything that shows a time is rendered again. */
export function tick(): void {
  nowMs = Date.now() + skewMs
  for (const each of listeners) each()
}

function listen(changed: () => void): () => void {
  listeners.add(changed)
  timer ??= setInterval(() => {
    if (!document.hidden) tick()
  }, 1_000)
  return () => {
    listeners.delete(changed)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}
