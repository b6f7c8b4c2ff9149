/**
 * Keeps a draft until it is saved or discarded, also while the user opens other pages. It is only in memory, because
 * a form can contain a password.
 */
import { useCallback, useState } from 'react'

const drafts = new Map<string, unknown>()

/** `key` identifies the form and its subject. */
export function useDraft<T>(
  key: string,
  initial: () => T,
): [value: T, change: (next: Partial<T>) => void, forget: () => void, isKept: boolean] {
  const [isKept] = useState(() => drafts.has(key))
  const [value, setValue] = useState<T>(() => (drafts.has(key) ? (drafts.get(key) as T) : initial()))
  const update = useCallback(
    (next: Partial<T>) =>
      setValue((before) => {
        const after = { ...before, ...next }
        drafts.set(key, after)
        return after
      }),
    [key],
  )
  const forget = useCallback(() => {
    drafts.delete(key)
    setValue(initial())
  }, [key, initial])
  return [value, update, forget, isKept]
}
