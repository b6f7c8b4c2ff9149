/** Operations on a workspace's alerts. `management/` serves them. */
import { AlertsPut, AlertsShown, AlertsTested } from './alerts.ts'
import { everyManaged, managed, noContent, type Operation, ok, withBody } from './operation.ts'

export const alertOperations = [
  {
    ...managed('getAlerts', 'nothing'),
    versioned: 'alerts',
    summary: 'Show the address of alerts, and the result of the last ones',
    success: ok('Both null: no alerts are set up', AlertsShown),
    errors: everyManaged,
  },
  {
    ...managed('putAlerts', 'nothing'),
    versioned: 'alerts',
    summary: 'Replace the alert settings',
    description:
      'At most one alert is sent per lane and event in 5 minutes; alerts that were held back are counted in the next one. An alert that cannot be sent is retried for an hour. Every alert is described in docs/alerts.md.',
    request: AlertsPut,
    success: ok('As stored', AlertsShown),
    errors: ['changed_meanwhile', ...withBody],
  },
  {
    ...managed('deleteAlerts', 'nothing'),
    versioned: 'alerts',
    summary: 'Remove the alert settings and all pending alerts',
    success: noContent('Done, or there were none'),
    errors: ['changed_meanwhile', ...everyManaged],
  },
  {
    ...managed('testAlerts', 'nothing'),
    summary: 'Send a test alert now, and return the response of its receiver',
    success: ok('The response of the receiver', AlertsTested),
    errors: ['alerts_not_set_up', ...everyManaged],
  },
] as const satisfies readonly Operation[]
