/**
 * What makes this daemon a node of a cluster, over metadata that is open: its place among the nodes. Loaded and opened where the
 * settings name a cluster; on one machine there is none of it.
 */
import type { ClusterNode } from './cluster/cluster-node.ts'
import { formatAddress } from './config.ts'
import { ApiError } from './contract/errors.ts'
import { type ClusterSettings, clusterSettings } from './data-dir/cluster-settings.ts'
import type { Authenticate } from './directory/authenticate.ts'
import type { ClusterFacts } from './management/deps.ts'
import type { Metadata } from './metadata/store.ts'
import type { Settings } from './settings.ts'
import { exitWhenDead, type StartContext } from './start-context.ts'
import { version } from './version.ts'

export interface Cluster {
  readonly settings: ClusterSettings
  readonly node: ClusterNode
}

/** Null on one machine. What is read of metadata after this is no older than what the node tells the others that it knows. */
export async function openCluster(
  settings: Settings,
  metadata: Metadata,
  context: StartContext,
): Promise<Cluster | null> {
  const { log, shutdown } = context
  const cluster = clusterSettings(settings)
  if (cluster === null) return null
  const { openClusterNode } = await import('./cluster/nodes.ts')
  const node = await openClusterNode({
    store: metadata.cluster,
    name: cluster.nodeName,
    version: version(),
    address: formatAddress(settings.listen),
    log,
    onFatal: exitWhenDead('cluster', context),
  })
  shutdown.set('leave cluster', () => node.close())
  return { settings: cluster, node }
}

const notInCluster =
  'This node has lost touch with its cluster and accepts nothing until it is back. Ask another node, or try again.'

/**
 * Whoever is asked who a key is answers only while the cluster counts on it: a node that others have counted out may not know
 * which keys were revoked since.
 */
export function authenticateWhileLive({ node }: Cluster, authenticate: Authenticate): Authenticate {
  return (authorization) => {
    if (node.isLive) return authenticate(authorization)
    throw new ApiError('storage_unavailable', { message: notInCluster, headers: { 'Retry-After': '2' } })
  }
}

export async function clusterFacts({ node }: Cluster): Promise<ClusterFacts> {
  const [nodes, owners] = await Promise.all([node.nodes(), node.owners()])
  const shown = nodes.map(({ nodeId, name, isDraining, leftMs }) => ({
    nodeId,
    nodeName: name,
    state: leftMs === 0 ? ('expired' as const) : isDraining ? ('draining' as const) : ('live' as const),
    isThis: nodeId === node.nodeId,
  }))
  return { nodes: shown, owners }
}
