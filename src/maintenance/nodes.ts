/**
 * The nodes of the cluster that the settings name, for operators of its machines. Works directly on its databases and
 * not through a node.
 */
import { stateOf } from '../cluster/cluster-view.ts'
import type { NodeState } from '../contract/node-words.ts'
import { StoredLanes } from '../delivery/stored-lanes.ts'
import { leaseMs, type NodeRecord, requireShared } from '../metadata/cluster-store.ts'
import type { Metadata } from '../metadata/store.ts'
import { messageOf } from '../platform/error-code.ts'
import { openLog } from '../platform/log.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { type ClusterSettings, clusterSettings } from '../stores/cluster-settings.ts'
import { knownBuffer } from '../stores/known-buffer.ts'
import { openBufferReader } from '../stores/open-log.ts'
import { bufferSpec, dataDirAt, openDataDirMetadata } from './data-dir.ts'
import { DataDirError } from './errors.ts'

export interface ListedNode {
  node_name: string
  node_id: string
  node_state: NodeState
  /** False while its delivery is being started or restarted. */
  is_delivering: boolean
  version: string
  address: string | null
  started_ts: string
  last_heartbeat_ts: string
  owned_pipes: number
  /** Age of the oldest undelivered message of its pipes. 0: none is waiting. Null: the buffer cannot be read. */
  lag_seconds: number | null
}

export interface ListedNodes {
  cluster_name: string
  nodes: ListedNode[]
  /** Pipes that no node delivers at this moment. */
  unowned_pipes: number
  unowned_lag_seconds: number | null
}

export interface LocalCluster {
  /** Sorted by name. */
  nodes(): Promise<NodeRecord[]>
  /** `onNoLag` receives the reason if the buffer cannot be read. */
  list(onNoLag: (reason: string) => void): Promise<ListedNodes>
  /** False: the node no longer exists. */
  setDraining(nodeId: string, isDraining: boolean): Promise<boolean>
}

/** Throws DataDirError if the settings are those of a single machine. */
export async function withLocalCluster<T>(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  use: (cluster: LocalCluster) => Promise<T>,
): Promise<T> {
  const cluster = clusterSettings(settings)
  if (cluster === null) {
    throw new DataDirError(
      'unfit',
      'there is no cluster: these are the settings of a single machine',
      'a node needs metadata.url and buffer.nats (set the file with --config); docs/cluster.md describes the setup',
    )
  }
  const { metadata } = await openDataDirMetadata(settings, env, { create: false })
  try {
    return await use(localCluster(settings, cluster, metadata))
  } finally {
    await metadata.close()
  }
}

function localCluster(settings: Settings, cluster: ClusterSettings, metadata: Metadata): LocalCluster {
  const { nodes, pipes: owned } = requireShared(metadata)
  return {
    nodes: () => nodes.list(),
    setDraining: (nodeId, isDraining) => nodes.setDraining(nodeId, isDraining),
    async list(onNoLag) {
      const lags = await lagByPipe(settings, metadata, onNoLag)
      const [owners, records] = [await owned.owners(), await nodes.list()]
      const pipes = await metadata.laneSource.allPipes()
      const lagOf = (isOne: (pipeId: string) => boolean) =>
        lags &&
        Math.max(0, ...pipes.filter((pipe) => isOne(pipe.pipeId)).map((pipe) => lags.get(pipe.pipeId) ?? 0))
      return {
        cluster_name: cluster.name,
        nodes: records.map((one) => ({
          ...listed(one),
          lag_seconds: lagOf((pipeId) => owners.get(pipeId) === one.nodeId),
        })),
        unowned_pipes: pipes.filter((pipe) => !owners.has(pipe.pipeId)).length,
        unowned_lag_seconds: lagOf((pipeId) => !owners.has(pipeId)),
      }
    },
  }
}

function listed(one: NodeRecord): Omit<ListedNode, 'lag_seconds'> {
  return {
    node_name: one.name,
    node_id: one.nodeId,
    node_state: stateOf(one),
    is_delivering: one.isDelivering,
    version: one.version,
    address: one.address,
    started_ts: new Date(one.startedMs).toISOString(),
    last_heartbeat_ts: new Date(one.expiresMs - leaseMs).toISOString(),
    owned_pipes: one.ownedPipes,
  }
}

/** Uses the last saved state of the lanes. Null: the buffer cannot be read. */
async function lagByPipe(
  settings: Settings,
  metadata: Metadata,
  onNoLag: (reason: string) => void,
): Promise<Map<string, number> | null> {
  const { laneSource: source, laneStore: store, parkedStore: parked } = metadata
  const lanes = new StoredLanes({
    source,
    store,
    parked,
    async openReader() {
      const spec = bufferSpec(settings, dataDirAt(settings.data_dir))
      const log = openLog({ ...logSettings(settings), level: 'error' }, 'nodes')
      return await openBufferReader({ ...spec, ...(await knownBuffer(metadata)) }, log)
    },
  })
  const pipes = await source.allPipes()
  try {
    const found = await lanes.lanes(pipes.flatMap((pipe) => pipe.lanes.map((lane) => lane.destinationId)))
    return new Map(
      pipes.map(({ pipeId, lanes: specs }) => [
        pipeId,
        Math.max(0, ...specs.map((spec) => found[spec.destinationId]?.oldest_pending_age_seconds ?? 0)),
      ]),
    )
  } catch (error) {
    onNoLag(messageOf(error))
    return null
  }
}
