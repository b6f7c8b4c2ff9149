/** Detects from the API's responses that the session has ended while pages are open. */
import { ApiFailure } from '../../client/failure.ts'

let isEnded = false
const listeners = new Set<() => void>()

export const sessionEnd = {
  subscribe: (changed: () => void) => {
    listeners.add(changed)
    return () => listeners.delete(changed)
  },
  isEnded: () => isEnded,
}

export function setSessionEnded(ended: boolean): void {
  isEnded = ended
  for (const each of listeners) each()
}

export function hasEnded(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 401
}

export function noticeEnd(error: unknown): void {
  if (hasEnded(error)) setSessionEnded(true)
}
