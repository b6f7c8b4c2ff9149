/** What each part of the daemon takes from the settings. */
import { randomUUID } from 'node:crypto'
import type { KnownBuffer } from './buffer/buffer.ts'
import type { BufferSpec } from './buffer/open.ts'
import { current } from './contract/epochs.ts'
import { clusterSettings, jetStreamSpec } from './data-dir/cluster-settings.ts'
import type { DataDir } from './data-dir/data-dir.ts'
import type { DriverSettings } from './destinations/driver.ts'
import type { Surface } from './http/server.ts'
import { type LogSettings, resolveLogFormat } from './log.ts'
import type { Metadata } from './metadata/store.ts'
import type { Settings } from './settings.ts'

/** `auto` is decided here, on the main thread: the others cannot see whether stderr is a terminal. */
export function logSettings(settings: Settings): LogSettings {
  return { level: settings['log.level'], format: resolveLogFormat(settings['log.format']) }
}

/** `channel` is this run's: two daemons of one process must not hear each other's commits. */
export function bufferSpec(settings: Settings, dir: DataDir): BufferSpec {
  const cluster = clusterSettings(settings)
  if (cluster !== null) return jetStreamSpec(settings, cluster, dir.quarantineDir)
  return {
    kind: 'segments',
    channel: `buffer-${randomUUID()}`,
    dir: dir.bufferDir,
    quarantineDir: dir.quarantineDir,
    maxBytes: settings['buffer.max_bytes'],
    minFreeBytes: settings['buffer.min_free_bytes'],
    segmentMaxBytes: settings['buffer.segment_max_bytes'],
    segmentMaxSeconds: settings['buffer.segment_max_seconds'],
    undeliveredHours: settings['buffer.undelivered_hours'],
    deliveredHours: settings['buffer.delivered_hours'],
    deliveredMaxBytes: settings['buffer.delivered_max_bytes'],
    scrubHours: settings['buffer.scrub_hours'],
  }
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
    },
  }
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
