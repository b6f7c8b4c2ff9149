/** Reads periodically whether alerts are configured. Null: not known yet, or this key cannot read them. */
import { useEffect, useState } from 'react'
import type { AlertsShown } from '../../contract/alerts.ts'
import type { Client } from '../client/client.ts'

const everyMs = 10_000

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
