/** The cache of what the server said, and the one place that notices that the session has ended. */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { hasEnded } from './api.ts'

let isEnded = false
const listeners = new Set<() => void>()

function noticeEnd(error: unknown): void {
  if (hasEnded(error)) setSessionEnded(true)
}

export function setSessionEnded(ended: boolean): void {
  isEnded = ended
  for (const each of listeners) each()
}

export const sessionEnd = {
  subscribe: (changed: () => void) => {
    listeners.add(changed)
    return () => listeners.delete(changed)
  },
  isEnded: () => isEnded,
}

/** Requests go out whatever the browser thinks of the network: the daemon may be on this machine. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: { retry: false, networkMode: 'always', staleTime: 1_000 },
    mutations: { retry: false, networkMode: 'always' },
  },
})
