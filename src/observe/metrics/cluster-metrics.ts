/** Metrics of the cluster as this node sees it. A single machine has none of them. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { ClusterMeasured } from '../../cluster/cluster-view.ts'
import { nodeStates } from '../../contract/node-words.ts'

export type ClusterSource = () => Promise<ClusterMeasured>

export function registerCluster(registry: Registry, measured: ClusterSource): () => Promise<void> {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const nodes = new Gauge({
    name: 'pipectl_cluster_nodes',
    help: 'Nodes by state; a node that stopped unexpectedly is expired for an hour, or until a node of its name is back.',
    labelNames: ['state'],
    registers,
  })
  const owned = gauge('pipectl_cluster_owned_pipes', 'Pipes that this node delivers.')
  const unowned = gauge('pipectl_cluster_unowned_pipes', 'Pipes that no node delivers at this moment.')
  const gained = new Counter({
    name: 'pipectl_cluster_gained_pipes_total',
    help: 'Pipes that this node took over, checked every two seconds.',
    registers,
  })
  const age = gauge('pipectl_cluster_heartbeat_age_seconds', 'Seconds since this node renewed its lease.')
  const behind = gauge('pipectl_cluster_changes_behind', 'Changes that this node has not applied yet.')
  const offset = gauge('pipectl_cluster_clock_offset_seconds', "The database's clock minus this machine's.")
  return async () => {
    const found = await measured()
    for (const state of nodeStates) nodes.set({ state }, found.nodes[state])
    owned.set(found.ownedPipes)
    unowned.set(found.unownedPipes)
    gained.reset()
    gained.inc(found.gainedPipes)
    age.set(found.heartbeatAgeSeconds)
    behind.set(found.changesBehind)
    offset.set(found.clockOffsetSeconds)
  }
}
