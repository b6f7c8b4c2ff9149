/**
 * The overview, read every two seconds while the page is visible (a hidden page sends no request), and the rates of
 * the last hour computed from it. Each request names the known revision and gets the changes.
 */
import { useQuery } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import type { Overview } from '../../../contract/overview.ts'
import { hourMs } from '../../../platform/quantities.ts'
import { type Rates, ratesBetween } from '../../client/overview.ts'
import { OverviewFeed } from '../../client/overview-feed.ts'
import { api } from './api.ts'
import { setServiceTime } from './clock.ts'
import { sessionEnd } from './session-end.ts'

const everyMs = 2_000

const feed = new OverviewFeed(api)
let last: Overview | null = null
let history: readonly Rates[] = []
const listeners = new Set<() => void>()

export function useOverview() {
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  return useQuery({
    queryKey: ['overview'],
    queryFn: async ({ signal }) => {
      const overview = await feed.next(signal)
      remember(overview)
      return overview
    },
    refetchInterval: isEnded ? false : everyMs,
  })
}

export function usePipeOverview(pipeId: string) {
  return useOverview().data?.pipes.find((pipe) => pipe.pipe_id === pipeId)
}

/** Oldest first, at most an hour, since this page was opened. */
export function useRates(): readonly Rates[] {
  return useSyncExternalStore(subscribe, () => history)
}

export function useRate(id: string): number {
  return useRates().at(-1)?.byId.get(id) ?? 0
}

function remember(overview: Overview): void {
  setServiceTime(Date.parse(overview.server_ts))
  const rates = last === null ? null : ratesBetween(last, overview)
  last = overview
  if (rates === null) return
  history = [...history, rates].filter((one) => one.atMs > rates.atMs - hourMs)
  for (const each of listeners) each()
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed)
  return () => listeners.delete(changed)
}
