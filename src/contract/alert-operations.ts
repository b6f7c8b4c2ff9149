/** Alerts of a workspace: served by `management/`. */
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
    summary: 'Show where alerts go, and what became of the last ones',
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
    summary: 'Set where alerts go, as a whole',
    description:
      'At most one alert is sent per lane and event in 5 minutes; what was held back is counted in the next one. What cannot be sent is tried again for an hour. Every alert is described in docs/alerts.md.',
    request: AlertsPut,
    success: { status: 200, description: 'As stored', schema: responseBodies.alerts },
    errors: ['changed_meanwhile', ...withBody],
  },
  {
    ...shared,
    ...at('deleteAlerts'),
    versioned: 'alerts',
    summary: 'Send no alerts any more, also not those that are pending',
    success: { status: 204, description: 'Done, also when there were none' },
    errors: ['changed_meanwhile', ...everyManaged],
  },
  {
    ...shared,
    ...at('testAlerts'),
    summary: 'Send a test alert now, and tell what came back',
    success: { status: 200, description: 'What came back', schema: responseBodies.alertsTested },
    errors: ['alerts_not_set_up', ...everyManaged],
  },
] as const satisfies readonly Operation[]
