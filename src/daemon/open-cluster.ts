/**
 * Makes this daemon a node of a cluster: registers it and connects delivery across the nodes. The modules are loaded
 * only if the settings name a cluster; a single machine loads none of them.
 */
import type { ClusterView } from '../cluster/cluster-view.ts'
import type { ClusterNode } from '../cluster/nodes.ts'
import type { ClusterQuotas } from '../cluster/quotas.ts'
import { ApiError } from '../contract/errors.ts'
import type { DeliveryHandle } from '../delivery/delivery-proxy.ts'
import { StoredLanes } from '../delivery/stored-lanes.ts'
import type { Authenticate } from '../ingest/directory/directory-cache.ts'
import type { SharedCounters } from '../ingest/shared-counters.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import { requireShared } from '../metadata/cluster-store.ts'
import type { Metadata } from '../metadata/store.ts'
import { version } from '../platform/version.ts'
import { formatAddress } from '../settings/config.ts'
import type { Settings } from '../settings/settings.ts'
import { type ClusterSettings, clusterSettings } from '../stores/cluster-settings.ts'
import { openBufferReader } from '../stores/open-log.ts'
import { exitWhenDead, type StartContext } from './start-context.ts'

export interface Cluster {
  readonly settings: ClusterSettings
  readonly node: ClusterNode
  /** The cluster as interfaces show it. */
  readonly view: ClusterView
}

/**
 * Null on one machine. Metadata that is read after this call is at least as new as the state that the node announces.
 */
export async function openCluster(
  settings: Settings,
  metadata: Metadata,
  context: StartContext,
): Promise<Cluster | null> {
  const { log, shutdown } = context
  const cluster = clusterSettings(settings)
  if (cluster === null) return null
  const [{ openClusterNode }, { ClusterView }] = await Promise.all([
    import('../cluster/nodes.ts'),
    import('../cluster/cluster-view.ts'),
  ])
  const store = requireShared(metadata)
  const node = await openClusterNode({
    store,
    name: cluster.nodeName,
    version: version(),
    address: formatAddress(settings.listen),
    log,
    onFatal: exitWhenDead('cluster', context),
  })
  const view = new ClusterView({ node, store, log })
  shutdown.set('leave cluster', () => {
    view.close()
    return node.close()
  })
  return { settings: cluster, node, view }
}

const notInCluster =
  'This node is disconnected from its cluster and rejects requests until it reconnects. Use another node, or try again.'

/**
 * Authenticates only while this node is a live member of the cluster. An expired node may not know which keys were
 * revoked in the meantime.
 */
export function authenticateWhileLive({ node }: Cluster, authenticate: Authenticate): Authenticate {
  return (authorization) => {
    if (node.isLive) return authenticate(authorization)
    throw new ApiError('storage_unavailable', { message: notInCluster, headers: { 'Retry-After': '2' } })
  }
}

/** The parts that delivery uses, and the main thread's own view of lanes. */
export interface DeliveryParts {
  local: DeliveryHandle
  buffer: BufferSpec
  metadata: Metadata
  counters: SharedCounters
}

export interface AcrossNodes {
  delivery: DeliveryHandle
  /** Pipe limits that apply to all nodes together. */
  quotas: ClusterQuotas
}

/** Sends calls about lanes of other nodes to those nodes, and serves their calls about lanes of this one. */
export async function openAcrossNodes(
  { node, settings }: Cluster,
  { local, buffer, metadata, counters }: DeliveryParts,
  { log, shutdown }: StartContext,
): Promise<AcrossNodes> {
  const [{ connectNats }, { openNodeLink }, { serveDelivery }, { clusterDelivery }, { ClusterQuotas }] =
    await Promise.all([
      import('../cluster/nats/connect.ts'),
      import('../cluster/node-link.ts'),
      import('../cluster/serve-delivery.ts'),
      import('../cluster/remote-delivery.ts'),
      import('../cluster/quotas.ts'),
    ])
  const nats = await connectNats(settings.nats)
  const link = openNodeLink({ nats, cluster: settings.name, nodeId: node.nodeId, log })
  const served = serveDelivery(local)
  const owners = (freshSinceMs?: number) => node.owners(freshSinceMs)
  const quotas = new ClusterQuotas({
    store: requireShared(metadata).quotas,
    nodeId: node.nodeId,
    counters,
    log,
    countUsage: (pipeId) => local.countUsage(pipeId),
  })
  node.changes.subscribe(async (change) => {
    if ('pipeId' in change) await quotas.changed(change.pipeId)
  })
  shutdown.set('close node requests', async () => {
    served.close()
    link.close()
    await nats.close()
    await quotas.close()
  })
  link.server.serve(served.methods)
  const delivery = clusterDelivery({
    local,
    log,
    owners,
    requests: link.requests,
    pipesOf: (destinationIds) => metadata.laneSource.pipesOf(destinationIds),
    stored: new StoredLanes({
      source: metadata.laneSource,
      store: metadata.laneStore,
      parked: metadata.parkedStore,
      openReader: () => openBufferReader(buffer, log),
    }),
  })
  return { delivery, quotas }
}
