/** Polls the daemon, one request after another. Keeps the last valid response if the daemon does not respond. */
import { useEffect, useRef, useState } from 'react'
import type { Overview } from '../../contract/overview.ts'
import type { Client } from '../client/client.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { nextRates, type Rates } from './rates.ts'

export interface Feed {
  snapshot: Overview | null
  rates: Rates
  /** Why the last attempt failed. Null: the shown data is current. */
  staleBecause: string | null
}

/** `refresh` polls immediately, for example after an action. */
export function useSnapshot(client: Client, everyMs: number): Feed & { refresh: () => void } {
  const [feed, setFeed] = useState<Feed>({ snapshot: null, rates: new Map(), staleBecause: null })
  const wake = useRef<() => void>(() => {})
  useEffect(() => {
    const stop = new AbortController()
    const overviews = new OverviewFeed(client)
    let timer: NodeJS.Timeout | undefined
    let running = false
    const round = async () => {
      if (running || stop.signal.aborted) return
      running = true
      clearTimeout(timer)
      const change = await nextChange(overviews, stop.signal)
      running = false
      if (stop.signal.aborted) return
      setFeed(change)
      timer = setTimeout(round, everyMs)
    }
    wake.current = () => void round()
    void round()
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [client, everyMs])
  return { ...feed, refresh: () => wake.current() }
}

/** Sends one request. Returns how its response changes the shown state. */
async function nextChange(overviews: OverviewFeed, signal: AbortSignal): Promise<(before: Feed) => Feed> {
  try {
    const snapshot = await overviews.next(signal)
    return ({ rates, snapshot: before }) => ({
      snapshot,
      rates: nextRates(rates, before, snapshot),
      staleBecause: null,
    })
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    return (before) => ({ ...before, staleBecause: why })
  }
}
