/** Polls the daemon. Keeps the last valid response if the daemon does not respond. */
import { useEffect, useRef, useState } from 'react'
import type { AlertsShown } from '../../contract/alerts.ts'
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

/** One request after another. `refresh` polls immediately, for example after an action. */
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

const everyMs = 10_000

/** Reads periodically whether alerts are configured. Null: not known yet, or this key cannot read them. */
export function useAlerts(client: Client): AlertsShown | null {
  const [shown, setShown] = useState<AlertsShown | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const round = async () => {
      try {
        const { body } = await client.call('getAlerts', { signal: stop.signal })
        if (!stop.signal.aborted) setShown(body)
      } catch {
        // The header reports that the daemon does not respond. The last value stays.
      }
      if (!stop.signal.aborted) timer = setTimeout(round, everyMs)
    }
    void round()
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [client])
  return shown
}
