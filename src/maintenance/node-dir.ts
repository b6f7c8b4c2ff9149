/**
 * The data directory of a cluster node. All state is in PostgreSQL and JetStream. The directory has only files of this host:
 *
 *   sealing.key    the same on every node (unless it comes from a file or a credential)
 *   quarantine/    damaged messages that this node set aside
 *   daemon.lock    held by the running daemon
 *   running        whether its last run stopped normally
 */
import { existsSync } from 'node:fs'
import { findBuffer } from '../log/segments/read-identity.ts'
import { ConfigError } from '../platform/config-error.ts'
import type { ClusterSettings } from '../stores/cluster-settings.ts'

/** The files that can exist in a node's directory before its mode is restricted. */
export const nodeFiles = ['sealing.key', 'quarantine', 'daemon.lock', 'running', 'first-key', 'first-link']

export const copyKey =
  'copy sealing.key of the first node here (mode 0600), or set secrets.key_file: every node of a cluster needs the same key'

/**
 * Throws ConfigError if the directory is that of a single machine: as a node, the daemon would never deliver its
 * messages.
 */
export function requireNoStores(dir: { root: string; metadataFile: string; bufferDir: string }): void {
  const found = existsSync(dir.metadataFile)
    ? dir.metadataFile
    : findBuffer(dir.bufferDir).holdsMessages
      ? dir.bufferDir
      : null
  if (found === null) return
  throw new ConfigError(
    `data_dir: ${dir.root} belongs to a single machine (${found}), but metadata.url and buffer.nats are set. Nothing was changed. ` +
      'Move its data into the cluster with `pipectl migrate`, then use another data_dir for this node, with the same sealing.key',
  )
}

/** True if `init` has run for this cluster. Throws ConfigError, StorageUnavailableError. */
export async function isClusterSetUp({ metadata }: ClusterSettings): Promise<boolean> {
  // Loaded only in a cluster.
  const { inspectPostgres } = await import('../cluster/postgresql/inspect.ts')
  return (await inspectPostgres(metadata.url)).metadata !== null
}

/** The error for a cluster whose metadata is not set up. */
export function clusterNotSetUp(what: string): ConfigError {
  return new ConfigError(
    `metadata.url: the database ${what}; run \`pipectl init\` with the same settings once, or start the first node with \`pipectl serve --init\``,
  )
}
