/**
 * Rejects commands that work on the files of a data directory if the settings are those of a cluster node, and names
 * the alternative.
 */
import { existsSync } from 'node:fs'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings } from '../stores/cluster-settings.ts'
import { dataDirAt } from './data-dir.ts'
import { DataDirError } from './errors.ts'

const instead = {
  backup:
    'back up PostgreSQL first (pg_dump), then the stream (nats stream backup): see "Backup" in docs/cluster.md',
  restore:
    'restore the database and the stream, then run `pipectl nodes renumber`: see "Backup" in docs/cluster.md. For a single machine, remove metadata.url and buffer.nats from the settings',
  verify: 'PostgreSQL and nats-server check their own data; `pipectl doctor` checks both servers',
  repair: 'nats-server rebuilds a damaged replica from the others; `pipectl doctor` shows their state',
} as const

/** Throws DataDirError for the settings of a node, unless the directory of a single machine is given explicitly. */
export function requireSingleMachine(command: keyof typeof instead, settings: Settings): void {
  const cluster = clusterSettings(settings)
  if (cluster === null) return
  if (command !== 'restore' && existsSync(dataDirAt(settings.data_dir).metadataFile)) return
  throw new DataDirError(
    'conflict',
    `these are the settings of a node of the cluster ${cluster.name}, which has its data in PostgreSQL and NATS; ${command} works on the data directory of a single machine`,
    instead[command],
  )
}
