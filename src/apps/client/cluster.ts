/** Describes the nodes of a cluster in words, for `status`, `top` and the dashboard. Pure. */
import type { Overview, OverviewCluster, OverviewNode } from '../../contract/overview.ts'
import { counted } from '../../platform/quantities.ts'

/** Null: a single machine, or a daemon without support for clusters. */
export function clusterOf({ cluster }: { cluster?: Overview['cluster'] }): OverviewCluster | null {
  return cluster ?? null
}

/** Describes the pipes of a node, or its problem. */
export function nodeInWords({ node_state, owned_pipes }: OverviewNode): string {
  const pipes = counted(owned_pipes, 'pipe')
  if (node_state === 'live') return pipes
  if (node_state === 'draining')
    return owned_pipes === 0 ? 'draining, no pipes left' : `draining, ${pipes} left`
  return owned_pipes === 0 ? 'expired' : `expired, ${pipes} to take over`
}

/** Null: every pipe is delivered by a node. */
export function unownedInWords({ unowned_pipes }: OverviewCluster): string | null {
  return unowned_pipes === 0 ? null : `${counted(unowned_pipes, 'pipe')} without a node`
}
