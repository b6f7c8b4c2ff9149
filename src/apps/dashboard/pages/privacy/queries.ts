/** Reads jobs until they have ended. Their responses have no values, only the paths of keys. */
import { useQuery } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import type { PrivacyJob } from '../../../../contract/privacy.ts'
import { api } from '../../data/api.ts'
import { destinationEveryMs } from '../../data/queries.ts'
import { sessionEnd } from '../../data/session-end.ts'
import { isOpen } from '../../ui/job-state.tsx'

const jobEveryMs = 500
const openEveryMs = 1_000

/** Newest first, without their matches. Jobs of other users appear too. */
export function usePrivacyJobs() {
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  return useQuery({
    queryKey: ['privacy', 'jobs'],
    queryFn: async ({ signal }) => (await api.call('listPrivacyJobs', { signal })).body.jobs,
    refetchInterval: ({ state }) =>
      isEnded ? false : state.data?.some(isOpen) ? openEveryMs : destinationEveryMs,
  })
}

/** With its matches. */
export function usePrivacyJob(jobId: string) {
  return useJob(jobId, undefined)
}

/** Starts with the response to the request. Null: no job. */
export function useStartedJob(job: PrivacyJob | null) {
  return useJob(job?.job_id ?? null, job ?? undefined)
}

function useJob(jobId: string | null, initialData: PrivacyJob | undefined) {
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  return useQuery({
    queryKey: ['privacy', 'job', jobId],
    enabled: jobId !== null,
    queryFn: async ({ signal }) =>
      (await api.call('getPrivacyJob', { path: { job_id: jobId ?? '' }, signal })).body,
    initialData,
    refetchInterval: ({ state }) =>
      isEnded || (state.data !== undefined && !isOpen(state.data)) ? false : jobEveryMs,
  })
}
