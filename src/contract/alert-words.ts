/**
 * The events that can raise an alert, and the ways to send one (docs/dev/contract.md#alerts). Free of schemas, like
 * `destination-words.ts`.
 */
import { redactedUrl } from './secret-url.ts'

/** Event → its description, in the order of lists and forms. */
export const alertEvents = {
  'lane.failing':
    'A lane has been failing for 60 s and a retry has failed too. Not sent if lane.stuck or lane.stalled was.',
  'lane.stuck': 'A destination rejects a message, or every message, permanently: the lane needs a person.',
  'lane.stalled':
    'A lane has been failing for longer than destination_max_retry_seconds; it is retried every 15 minutes.',
  'lane.recovered':
    'A lane that one of these alerts reported delivers again, or has nothing left to deliver.',
  'message.parked': 'Messages or records were parked; those of one minute are reported together.',
  'pipe.parked':
    'Records were parked at a pipe because they do not match its schema; those of one minute are reported together.',
  'messages.dropped': 'Messages were lost to retention or damage before a lane had delivered them.',
  'retention.near':
    'The oldest message of a lane has waited for more than 80 % of the time after which it is dropped.',
  'lane.drift':
    'Records repeatedly have keys that no column of the database destination takes: their values are not stored.',
  'columns.not_added':
    'auto_add_columns could not add columns to the table of a destination; it is repeated with growing pauses.',
  'buffer.near_full':
    'The buffer of the service is 80 % full, or its disk has less than twice buffer.min_free_bytes.',
  'replica.lagging': 'The replica of the service in object storage is more than 5 minutes behind.',
  'daemon.restarted_after_crash': 'The previous run of the service ended without a normal stop.',
} as const
export type AlertEvent = keyof typeof alertEvents

export const alertEventNames = Object.keys(alertEvents) as AlertEvent[]

export const alertFormats = ['standard', 'slack'] as const
export type AlertFormat = (typeof alertFormats)[number]

/** The `type` of the alert that POST /v1/alerts/test sends. */
export const testAlert = 'alert.test'

/**
 * The URL as responses, logs and the audit log show it. The path of a Slack webhook is redacted because it is a
 * secret.
 */
export function redactedAlertUrl(url: string, format: AlertFormat): string {
  return redactedUrl(url, format === 'slack')
}
