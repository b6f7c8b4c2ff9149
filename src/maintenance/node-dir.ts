/**
 * The data directory of a node of a cluster. All state is in PostgreSQL and JetStream; it holds what is this host's own:
 *
 *   sealing.key    the same on every node (unless it comes from a file or a credential)
 *   quarantine/    damaged messages, put aside by this node
 *   daemon.lock    held by the running daemon
 *   running        whether its last run stopped by itself
 */
import { existsSync } from 'node:fs'
import { findBuffer } from '../log/segments/read-identity.ts'
import { ConfigError } from '../platform/config-error.ts'
import type { ClusterSettings } from '../stores/cluster-settings.ts'

/** The files that may be in a node's directory before it is closed to other users. */
export const nodeFiles = ['sealing.key', 'quarantine', 'daemon.lock', 'running', 'first-key', 'first-link']

export const copyKey =
  'copy sealing.key of the first node here (mode 0600), or set secrets.key_file: every node of a cluster needs the same key'

/** Throws ConfigError when the directory is a single machine's: as a node it would leave its messages lying. */
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

/** Whether `init` has run for this cluster. Throws ConfigError, StorageUnavailableError. */
export async function isClusterSetUp({ metadata }: ClusterSettings): Promise<boolean> {
  // Loaded in clustered mode alone.
  const { inspectPostgres } = await import('../cluster/postgresql/inspect.ts')
  return (await inspectPostgres(metadata.url)).metadata !== null
}

/** The error for the metadata of a cluster that was not set up. */
export function clusterNotSetUp(what: string): ConfigError {
  return new ConfigError(
    `metadata.url: the database ${what}; run \`pipectl init\` with the same settings once, or start the first node with \`pipectl serve --init\``,
  )
}
