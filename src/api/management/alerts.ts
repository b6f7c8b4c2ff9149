/** The alerts of a workspace (docs/dev/contract.md#alerts). Their settings are replaced and removed as a whole. */
import { alertEventNames, redactedAlertUrl } from '../../contract/alert-words.ts'
import type { AlertsPut, AlertsShown } from '../../contract/alerts.ts'
import { redacted } from '../../contract/destination-words.ts'
import { ApiError } from '../../contract/errors.ts'
import { misdirectedSecrets } from '../../contract/secret-server.ts'
import { restoredUrl } from '../../contract/secret-url.ts'
import { type FieldErrors, requireDistinct, throwIfErrors } from '../../contract/validate.ts'
import type { AlertSettings, StoredAlerts } from '../../metadata/alerts.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { type CheckTarget, configErrors } from './destination-rules.ts'
import { SharedRuns } from './shared-runs.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'checkTarget' | 'testAlert'>
type Tested = Awaited<ReturnType<ManagementDeps['testAlert']>>

const endpoint = 'destination_http_endpoint'
/** Maps fields of an endpoint's config to fields of the body. */
const bodyFields: Readonly<Record<string, keyof AlertsPut>> = { url: 'url', signing_secret: 'secret' }

export function alertUseCases({ metadata, checkTarget, testAlert }: Deps) {
  const tests = new SharedRuns<Tested>()
  return {
    async getAlerts({ principal }: Call<'getAlerts'>): Promise<AlertsShown> {
      return shown(await metadata.alerts.get(principal.workspaceId))
    },

    async putAlerts({ principal, body: given }: Call<'putAlerts'>): Promise<AlertsShown> {
      requireDistinct('events', given.events)
      const stored = await metadata.alerts.put(principal.workspaceId, (current) =>
        newSettings(given, current, checkTarget),
      )
      return shown(stored)
    },

    /** Succeeds even if no alerts are set up. */
    async deleteAlerts({ principal }: Call<'deleteAlerts'>): Promise<void> {
      await metadata.alerts.delete(principal.workspaceId)
    },

    /** Requests that arrive during a run share the next one. */
    async testAlerts({ principal: { workspaceId } }: Call<'testAlerts'>): Promise<Tested> {
      const settings = await metadata.alerts.get(workspaceId)
      if (settings === null) throw new ApiError('alerts_not_set_up')
      return await tests.run(workspaceId, () => testAlert(workspaceId, settings))
    },
  }
}

function shown(stored: StoredAlerts | null): AlertsShown {
  if (stored === null) return { alerts: null, status: null }
  const { url, secret, format, events, isUnreadable, status } = stored
  return {
    alerts: {
      url: isUnreadable ? redacted : redactedAlertUrl(url, format),
      secret: secret === null ? null : redacted,
      format,
      events: [...(events ?? alertEventNames)],
    },
    status,
  }
}

/** A redacted value that is sent back keeps the stored value, unless the URL names another server. */
function newSettings(
  given: AlertsPut,
  current: StoredAlerts | null,
  checkTarget: CheckTarget,
): AlertSettings {
  const { format = 'standard', events = null } = given
  // As another format, a stored Slack address would show its path, which is a secret.
  const mayRestore = current !== null && (format === 'slack' || current.format === format)
  const url = mayRestore ? restored(given.url, current) : given.url
  const secret = newSecret(given.secret, current)
  const merged = { url, ...(secret === null ? {} : { signing_secret: secret }) }
  const errors: FieldErrors = {}
  for (const [field, message] of Object.entries(configErrors(endpoint, merged, checkTarget)))
    errors[bodyFields[field.replace('destination_config.', '')] ?? field] = message
  if (current !== null) {
    const before = { url: current.url, signing_secret: current.secret }
    const change = { url: given.url, signing_secret: given.secret ?? null }
    for (const [field, message] of misdirectedSecrets(endpoint, before, change, merged))
      errors[bodyFields[field] ?? field] ??= message
  }
  throwIfErrors(errors)
  const inOrder = events === null ? null : alertEventNames.filter((event) => events.includes(event))
  return { url, secret, format, events: inOrder }
}

function newSecret(given: AlertsPut['secret'], current: StoredAlerts | null): string | null {
  const keepsSecret = given === redacted || given === ''
  return keepsSecret ? current?.secret || redacted : (given ?? null)
}

function restored(given: string, { url, format }: StoredAlerts): string {
  return given === redactedAlertUrl(url, format) ? url : restoredUrl(given, url)
}
