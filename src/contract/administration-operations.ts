/** Operations on the users, the audit log and the alerts of a workspace. `management/` serves them. */

import { AlertsPut, AlertsShown, AlertsTested } from './alerts.ts'
import { AuditList, auditParameters } from './audit.ts'
import { created, everyManaged, managed, noContent, type Operation, ok, withBody } from './operation.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'
import { SetupLink, SetupLinkCreate, UserCreate, UserList, UserUpdate } from './user.ts'

/** Passwords are hashed one at a time, and only a limited number of requests wait. */
const withPassword = ['sign_in_busy', ...withBody] as const

export const userOperations = [
  {
    ...managed('listUsers', 'nothing'),
    summary: 'List the users who can sign in to the dashboard',
    needs: 'manage',
    success: ok('All users', UserList),
    errors: everyManaged,
  },
  {
    ...managed('createUser', 'nothing'),
    summary: 'Create a user with a password',
    request: UserCreate,
    success: created('Created', responseBodies.user),
    errors: ['duplicate_user_email', 'workspace_full', ...withPassword],
  },
  {
    ...managed('updateUser', 'nothing'),
    summary: 'Change the role or the password of a user, which ends every session of the user',
    request: UserUpdate,
    success: ok('The changed user', responseBodies.user),
    errors: ['user_not_found', 'last_admin', ...withPassword],
  },
  {
    ...managed('deleteUser', 'nothing'),
    summary: 'Delete a user and end all sessions of the user',
    success: noContent('Deleted'),
    errors: ['user_not_found', 'last_admin', ...everyManaged],
  },
  {
    ...managed('createSetupLink', 'nothing'),
    summary: 'Create a link with which a person can create an account of that role, once, within 24 hours',
    request: SetupLinkCreate,
    success: created('The link, which is shown only in this response', SetupLink),
    errors: ['workspace_full', ...withBody],
  },
] as const satisfies readonly Operation[]

export const auditOperations = [
  {
    ...managed('listAudit', 'its_part'),
    summary: 'List the changes of the workspace and who made them, newest first',
    description: `Entries are kept for ${resourceLimits.auditDays} days, at most ${resourceLimits.auditEntriesPerWorkspace} per workspace. An entry and its change are stored together or not at all.`,
    needs: 'manage',
    parameters: auditParameters,
    success: ok('The entries', AuditList),
    errors: ['validation_error', ...everyManaged],
  },
] as const satisfies readonly Operation[]

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
