/**
 * Alerts of a workspace (docs/dev/contract.md#alerts): their receivers, their events, and the result of sending them.
 */
import Type, { type Static } from 'typebox'
import { alertEventNames, alertFormats } from './alert-words.ts'
import { boolean, closed, count, nullable, string, text, timestamp } from './schema-parts.ts'

const events = Object.freeze([...alertEventNames])

export const AlertsPut = Type.Object(
  {
    url: text(
      4000,
      'Where alerts are posted. User information and query values are secret, with format slack the path too: they are shown as [redacted]. Sending the shown value back keeps the stored one.',
    ),
    secret: Type.Optional(
      nullable(
        Type.String({
          maxLength: 400,
          description:
            'whsec_…: alerts are signed with it (Standard Webhooks); two of them, separated by a space, during a rotation. `[redacted]` keeps the stored one; without it or with null, alerts are not signed.',
        }),
      ),
    ),
    format: Type.Optional(
      Type.Enum([...alertFormats], {
        default: 'standard',
        description: 'standard: the JSON object of docs/alerts.md. slack: for an incoming webhook of Slack.',
      }),
    ),
    events: Type.Optional(
      Type.Array(Type.Enum([...alertEventNames]), {
        minItems: 1,
        maxItems: alertEventNames.length,
        description:
          'The events to send, each at most once in the list. Without it: all events, including those that later versions add.',
      }),
    ),
  },
  closed,
)
export type AlertsPut = Static<typeof AlertsPut>

export const Alerts = Type.Object({
  url: Type.String(),
  secret: nullable(string('[redacted]; null: alerts are not signed.')),
  format: Type.Enum([...alertFormats]),
  events: Type.Array(Type.Enum([...events])),
})
export type Alerts = Static<typeof Alerts>

export const AlertsStatus = Type.Object({
  pending_alerts: count('Alerts that are not sent yet. Each is retried for an hour.'),
  last_sent_ts: nullable(timestamp()),
  last_failure: nullable(
    Type.Object({
      failure_ts: timestamp(),
      code: string('`http_404`, `timeout`, `egress_denied`, …'),
      message: Type.String(),
    }),
  ),
})
export type AlertsStatus = Static<typeof AlertsStatus>

export const AlertsShown = Type.Object({
  alerts: nullable(Alerts),
  status: nullable(AlertsStatus),
})
export type AlertsShown = Static<typeof AlertsShown>

export const AlertsTested = Type.Object({
  ok: boolean('True: the receiver responded with a status of 200 to 299.'),
  status: nullable(Type.Integer({ description: 'The status of the response; null: there was none.' })),
  message: string('The response: one line, at most 1,024 bytes, without the secrets of the address.'),
})
export type AlertsTested = Static<typeof AlertsTested>
