import type { Settings } from '../settings/settings.ts'
import type { DriverSettings, OwnAddress } from './driver.ts'
import { tablesDirOf } from './sqlite/files.ts'

/**
 * Derives the rules for destinations from the daemon's settings. `workspaces` holds the number of workspaces as an
 * Int32, which main keeps up to date.
 */
export function driverSettings(settings: Settings, workspaces: SharedArrayBuffer): DriverSettings {
  return {
    databaseTls: settings.destination_db_ssl,
    databasePasswordInClear: settings.destination_db_cleartext_auth,
    pinsDatabaseKeys: settings.destination_db_tls_pin,
    // The directory of a cluster's node is not the service's: another node would deliver without the file.
    tables:
      settings['metadata.url'] === null
        ? { dir: tablesDirOf(settings.data_dir), minFreeBytes: settings['buffer.min_free_bytes'] }
        : null,
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

/** Leaves out listeners on port 0: their port is unknown here, and no client knows it before the socket is open. */
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
