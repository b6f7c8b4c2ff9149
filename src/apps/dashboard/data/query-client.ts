/** The cache of what the server said. */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { noticeEnd } from './session-end.ts'

/** Requests go out whatever the browser thinks of the network: the daemon may be on this machine. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: { retry: false, networkMode: 'always', staleTime: 1_000 },
    mutations: { retry: false, networkMode: 'always' },
  },
})
