import type { Settings } from '../settings/settings.ts'
import type { DriverSettings, OwnAddress } from './driver.ts'

/**
 * The rules for destinations that follow from the daemon's settings. `workspaces` is their number, an Int32 that
 * stays up to date.
 */
export function driverSettings(settings: Settings, workspaces: SharedArrayBuffer): DriverSettings {
  return {
    databaseTls: settings.destination_db_ssl,
    databasePasswordInClear: settings.destination_db_cleartext_auth,
    pinsDatabaseKeys: settings.destination_db_tls_pin,
    machineCredentials: settings['object_store.machine_credentials'],
    egress: {
      allow: settings['egress.allow'],
      deny: settings['egress.deny'],
      private: settings['egress.private'],
      workspaces,
      own: ownAddresses(settings),
    },
  }
}

/** Listeners on any free port are not known here; no client knows the port either before it is taken. */
function ownAddresses(settings: Settings): OwnAddress[] {
  const listeners = [settings.listen, settings.data_listen, settings['metrics.listen']]
  const listening = listeners.flatMap((one) => (one === null || one.port === 0 ? [] : [one]))
  const { 'buffer.nats': nats, 'metadata.url': metadataUrl } = settings
  const servers = (nats ?? []).map((url) => addressOf(new URL(url), 4222))
  if (metadataUrl === null) return [...listening, ...servers]
  const url = new URL(metadataUrl)
  const database = decodeURIComponent(url.pathname.slice(1))
  return [...listening, ...servers, { ...addressOf(url, 5432), database }]
}

function addressOf({ hostname, port }: URL, defaultPort: number): OwnAddress {
  return { host: hostname, port: port === '' ? defaultPort : Number(port) }
}
