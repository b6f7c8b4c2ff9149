/** Operations on a workspace's alerts. `management/` serves them. */
import { AlertsPut } from './alerts.ts'
import { everyManaged, type Operation, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
import { responseBodies } from './responses.ts'

const shared = { area: 'management', auth: 'key', boundKeys: 'nothing' } as const

export const alertOperations = [
  {
    ...shared,
    ...at('getAlerts'),
    versioned: 'alerts',
    summary: 'Show the address of alerts, and the result of the last ones',
    success: {
      status: 200,
      description: 'Both null: no alerts are set up',
      schema: responseBodies.alerts,
    },
    errors: everyManaged,
  },
  {
    ...shared,
    ...at('putAlerts'),
    versioned: 'alerts',
    summary: 'Replace the alert settings',
    description:
      'At most one alert is sent per lane and event in 5 minutes; alerts that were held back are counted in the next one. An alert that cannot be sent is retried for an hour. Every alert is described in docs/alerts.md.',
    request: AlertsPut,
    success: { status: 200, description: 'As stored', schema: responseBodies.alerts },
    errors: ['changed_meanwhile', ...withBody],
  },
  {
    ...shared,
    ...at('deleteAlerts'),
    versioned: 'alerts',
    summary: 'Remove the alert settings and all pending alerts',
    success: { status: 204, description: 'Done, or there were none' },
    errors: ['changed_meanwhile', ...everyManaged],
  },
  {
    ...shared,
    ...at('testAlerts'),
    summary: 'Send a test alert now, and return the response of its receiver',
    success: {
      status: 200,
      description: 'The response of the receiver',
      schema: responseBodies.alertsTested,
    },
    errors: ['alerts_not_set_up', ...everyManaged],
  },
] as const satisfies readonly Operation[]
