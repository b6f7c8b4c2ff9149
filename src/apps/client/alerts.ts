/** Summarizes the alerts of the workspace in one line. Pure. */
import type { AlertsShown } from '../../contract/alerts.ts'
import { ago } from '../../platform/quantities.ts'

/** The last alert could not be sent, or alerts are still pending. */
export function areAlertsFailing({ status }: AlertsShown): boolean {
  if (status === null || status.last_failure === null) return false
  return status.last_sent_ts === null || status.last_failure.failure_ts > status.last_sent_ts
}

export function alertsInWords(shown: AlertsShown, nowMs: number): string {
  const { alerts, status } = shown
  if (alerts === null || status === null) return 'not set up: `pipectl alerts set`'
  const { pending_alerts: pending, last_failure: failure, last_sent_ts: sent } = status
  const waiting = pending === 0 ? '' : `, ${pending} pending`
  if (failure !== null && areAlertsFailing(shown))
    return `to ${alerts.url}, not sent ${ago(failure.failure_ts, nowMs)}${waiting}: ${failure.message}`
  return `to ${alerts.url}, last sent ${ago(sent, nowMs)}${waiting}`
}
