/** The two sides of a move, from the settings of the cluster's nodes: the cluster, and a data directory that no daemon runs on. */
import { existsSync, readdirSync } from 'node:fs'
import { loadSealingKey } from '../../metadata/sealing-key.ts'
import type { MetadataSpec } from '../../metadata/store.ts'
import { ConfigError } from '../../platform/config-error.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { Settings } from '../../settings/settings.ts'
import { clusterSettings, jetStreamSpec } from '../../stores/cluster-settings.ts'
import { type DataDir, dataDirAt, makeDirectory, requirePrivate, segmentsSpec } from '../data-dir.ts'
import { DataDirError } from '../errors.ts'
import { lockDataDir } from '../lock.ts'
import { requireMatchingStores } from '../matching-stores.ts'
import { openMoveStore } from './metadata-store.ts'
import type { MoveSide } from './move.ts'

export type Direction = 'to_cluster' | 'from_cluster'

export interface Sides {
  source: MoveSide
  target: MoveSide
  close(): Promise<void>
}

/** Only errors: what a move has to say it says itself. */
export const moveLog: LogSettings = { level: 'error', format: 'auto' }

/** Throws ConfigError, DataDirError, DataDirInUseError, StorageUnavailableError. */
export async function openSides(
  direction: Direction,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Promise<Sides> {
  const dir = dataDirAt(settings.data_dir)
  if (direction === 'to_cluster') requireSource(dir)
  else requireNewDirectory(dir)
  const release = lockDataDir(dir)
  const opened: MoveSide[] = []
  const close = async () => {
    for (const { store } of opened) await store.close()
    release()
  }
  try {
    const key = await sealingKey(settings, env)
    const machine = await machineSide(dir, settings, key)
    opened.push(machine)
    const cluster = await clusterSide(settings, key)
    opened.push(cluster)
    await requireNoNodes(cluster)
    const [source, target] = direction === 'to_cluster' ? [machine, cluster] : [cluster, machine]
    return { source, target, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** So that what was moved away can be served again from where it was. False: it was not moved. */
export async function undoMove(settings: Settings, env: NodeJS.ProcessEnv): Promise<boolean> {
  const dir = dataDirAt(settings.data_dir)
  const key = await sealingKey(settings, env)
  if (!existsSync(dir.metadataFile)) return await unmark(await clusterSide(settings, key))
  const release = lockDataDir(dir)
  try {
    return await unmark(await machineSide(dir, settings, key))
  } finally {
    release()
  }
}

async function unmark({ store }: MoveSide): Promise<boolean> {
  try {
    if ((await store.movedTo()) === null) return false
    await store.unmarkMoved()
    return true
  } finally {
    await store.close()
  }
}

async function sealingKey(settings: Settings, env: NodeJS.ProcessEnv): Promise<Buffer> {
  const file = settings['secrets.key_file']
  return await loadSealingKey({ file, dataDir: settings.data_dir, create: false, env })
}

async function machineSide(dir: DataDir, settings: Settings, key: Buffer): Promise<MoveSide> {
  const metadata: MetadataSpec = { kind: 'sqlite', file: dir.metadataFile }
  const store = await openMoveStore(metadata, key)
  return {
    place: `data directory ${dir.root}`,
    store,
    buffer: { ...segmentsSpec(settings, dir), scrubHours: 0 },
  }
}

async function clusterSide(settings: Settings, key: Buffer): Promise<MoveSide> {
  const cluster = clusterSettings(settings)
  if (cluster === null) {
    throw new ConfigError(
      'metadata.url and buffer.nats are not set: give the settings of the nodes, in --config or in PIPECTL_METADATA_URL and PIPECTL_BUFFER_NATS (never as flags: they may carry passwords)',
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
      'name the one to move with --data-dir, or PIPECTL_DATA_DIR',
    )
  }
  requireMatchingStores(dir)
}

/** Empty but for a key, or one into which a move has begun (its metadata say whose). */
function requireNewDirectory(dir: DataDir): void {
  makeDirectory(dir.root)
  requirePrivate(dir)
  const ours = new Set(['sealing.key', 'daemon.lock', 'lost+found'])
  if (existsSync(dir.metadataFile) || readdirSync(dir.root).every((name) => ours.has(name))) return
  throw new DataDirError(
    'conflict',
    `${dir.root} is not empty; nothing was changed`,
    'name a new directory with --data-dir, with the sealing key of the cluster in it (sealing.key), or set secrets.key_file',
  )
}

async function requireNoNodes({ store, place }: MoveSide): Promise<void> {
  const nodes = await store.liveNodes()
  if (nodes.length === 0) return
  throw new DataDirError(
    'conflict',
    `nodes of the ${place} are running: ${nodes.join(', ')}`,
    'stop every node, then run it again (a node that was killed is counted out after 6 s)',
  )
}
