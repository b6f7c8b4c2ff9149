/**
 * Opens the two sides of a move from the settings of the cluster's nodes: a data directory without a running daemon,
 * and the cluster.
 */
import { existsSync } from 'node:fs'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { SegmentsSpec } from '../../log/segments/protocol.ts'
import { ConfigError } from '../../platform/config-error.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { Settings } from '../../settings/settings.ts'
import { clusterSettings, jetStreamSpec } from '../../stores/cluster-settings.ts'
import { type DataDir, dataDirAt, sealingKeyOf, segmentsSpec } from '../data-dir.ts'
import { DataDirError } from '../errors.ts'
import { lockDataDir } from '../lock.ts'
import { requireMatchingStores } from '../matching-stores.ts'
import { openMoveStore } from './metadata-store.ts'
import type { MoveSide, Sides } from './move.ts'

export interface OpenedSides extends Sides {
  close(): Promise<void>
}

/** Only errors, because the command reports the progress itself. */
export const moveLog: LogSettings = { level: 'error', format: 'auto' }

/** Throws ConfigError, DataDirError, DataDirInUseError, StorageUnavailableError. */
export async function openSides(settings: Settings, env: NodeJS.ProcessEnv): Promise<OpenedSides> {
  const dir = dataDirAt(settings.data_dir)
  requireSource(dir)
  const release = lockDataDir(dir)
  const opened: MoveSide[] = []
  const close = async () => {
    for (const { store } of opened) await store.close()
    release()
  }
  try {
    const key = await sealingKeyOf(settings, env)
    const source = await machineSide(dir, settings, key)
    opened.push(source)
    const target = await clusterSide(settings, key)
    opened.push(target)
    await requireNoNodes(target)
    return { source, target, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens only the cluster, whose nodes must all be stopped. Throws the same errors as `openSides`. */
export async function openCluster(
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Promise<MoveSide<JetStreamSpec>> {
  const side = await clusterSide(settings, await sealingKeyOf(settings, env))
  try {
    await requireNoNodes(side)
    return side
  } catch (error) {
    await side.store.close()
    throw error
  }
}

async function machineSide(dir: DataDir, settings: Settings, key: Buffer): Promise<MoveSide<SegmentsSpec>> {
  const store = await openMoveStore({ kind: 'sqlite', file: dir.metadataFile }, key)
  return {
    place: `data directory ${dir.root}`,
    store,
    buffer: { ...segmentsSpec(settings, dir), scrubHours: 0 },
  }
}

async function clusterSide(settings: Settings, key: Buffer): Promise<MoveSide<JetStreamSpec>> {
  const cluster = clusterSettings(settings)
  if (cluster === null) {
    throw new ConfigError(
      'metadata.url and buffer.nats are not set: set them in --config, or in PIPECTL_METADATA_URL and PIPECTL_BUFFER_NATS (never as flags, because they can contain passwords)',
    )
  }
  const store = await openMoveStore(cluster.metadata, key)
  const { quarantineDir } = dataDirAt(settings.data_dir)
  const place = `cluster ${cluster.name} (${store.label}, ${cluster.nats.servers.join(', ')})`
  return { place, store, buffer: jetStreamSpec(settings, cluster, quarantineDir) }
}

function requireSource(dir: DataDir): void {
  if (!existsSync(dir.metadataFile)) {
    throw new DataDirError(
      'missing',
      `${dir.root} is not a data directory of pipectl: it has no metadata.db`,
      'set the directory to move with --data-dir or PIPECTL_DATA_DIR',
    )
  }
  requireMatchingStores(dir)
}

async function requireNoNodes({ store, place }: MoveSide): Promise<void> {
  const nodes = await store.liveNodes()
  if (nodes.length === 0) return
  throw new DataDirError(
    'conflict',
    `nodes of the ${place} are running: ${nodes.join(', ')}`,
    'stop every node, then run it again (a killed node is ignored after 6 s)',
  )
}
