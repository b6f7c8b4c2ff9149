/** What each part of the daemon takes from the settings. */
import type { KnownBuffer } from '../log/buffer.ts'
import type { BufferSpec } from '../stores/open-log.ts'
import { current } from '../contract/epochs.ts'
import { clusterSettings, jetStreamSpec } from '../cluster/cluster-settings.ts'
import { type DataDir, segmentsSpec } from '../maintenance/data-dir.ts'
import type { DriverSettings, OwnAddress } from '../destinations/driver.ts'
import type { Surface } from '../api/http/server.ts'
import { type LogSettings, resolveLogFormat } from '../platform/log.ts'
import type { Metadata } from '../metadata/store.ts'
import type { Settings } from '../settings/settings.ts'
import type { CertificateFiles } from '../api/tls/certificate-files.ts'

/** `auto` is decided here, on the main thread: the others cannot see whether stderr is a terminal. */
export function logSettings(settings: Settings): LogSettings {
  return { level: settings['log.level'], format: resolveLogFormat(settings['log.format']) }
}

export function bufferSpec(settings: Settings, dir: DataDir): BufferSpec {
  const cluster = clusterSettings(settings)
  return cluster === null ? segmentsSpec(settings, dir) : jetStreamSpec(settings, cluster, dir.quarantineDir)
}

/** What metadata knows of the buffer: whose it is, and which seqs are given out. */
export async function knownBuffer(metadata: Metadata): Promise<Required<KnownBuffer>> {
  const { dataDirId, epochs } = await metadata.identity()
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  return { identity: { dataDirId, epoch }, knownSeq: await metadata.knownSeq(), nextSeqAtLeast }
}

/** `workspaces`: how many there are, an Int32 that stays up to date. */
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

/** Listeners on any free port are not known here; nobody else knows the port either before it is taken. */
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

/** By the listener's setting: where its certificate lies; null: it speaks plain HTTP. */
export function certificateFiles(settings: Settings, listener: string): CertificateFiles | null {
  const own = listener === 'data_listen' && settings['tls.data_cert_file'] !== null
  const certSetting = own ? 'tls.data_cert_file' : 'tls.cert_file'
  const keySetting = own ? 'tls.data_key_file' : 'tls.key_file'
  const certFile = settings[certSetting]
  const keyFile = settings[keySetting]
  return certFile === null || keyFile === null ? null : { certFile, keyFile, certSetting, keySetting }
}

/** Whether ingest and pull are on a listener with TLS. */
export function servesDataOverTls(settings: Settings): boolean {
  return surfaces(settings).some(({ name, data }) => data && certificateFiles(settings, name) !== null)
}

/** With a second listener, ingest and pull leave the first: the public listener must not expose management. */
export function surfaces(settings: Settings): Surface[] {
  const { listen, data_listen: dataListen } = settings
  if (dataListen === null) return [{ name: 'listen', listen, management: true, data: true }]
  return [
    { name: 'listen', listen, management: true, data: false },
    { name: 'data_listen', listen: dataListen, management: false, data: true },
  ]
}
