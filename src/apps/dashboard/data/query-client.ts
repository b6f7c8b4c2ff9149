/** The cache of the server's responses. */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { noticeEnd } from './session-end.ts'

/** Requests are sent even if the browser reports no network: the daemon may be on this machine. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: { retry: false, networkMode: 'always', staleTime: 1_000 },
    mutations: { retry: false, networkMode: 'always' },
  },
})
