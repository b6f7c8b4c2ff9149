/**
 * The overview combines the state of metadata, the lanes and ingest. However many screens request it, a workspace has
 * only one refresh at a time, and the cost of a refresh depends on how much has changed since the last one
 * (`overview-view.ts`).
 */
import type { Overview, OverviewCluster } from '../../contract/overview.ts'
import { isForPipe } from '../../ingest/admission.ts'
import { minuteMs } from '../../platform/quantities.ts'
import type { Call } from './call.ts'
import type { ClusterFacts, ManagementDeps } from './deps.ts'
import { OverviewView } from './overview-view.ts'
import { SharedRuns } from './shared-runs.ts'

type Deps = Pick<
  ManagementDeps,
  | 'metadata'
  | 'laneViews'
  | 'now'
  | 'pendingUsage'
  | 'ingestTotals'
  | 'serviceFacts'
  | 'isPrivateDenied'
  | 'cluster'
>

/** The view of a workspace that is not read for this duration is dropped: the next read gets everything. */
const keptMs = 5 * minuteMs

export function overviewUseCases(deps: Deps) {
  const runs = new SharedRuns<ServiceParts>()
  const views = new Map<string, { view: OverviewView; askedMs: number }>()

  function viewOf(workspaceId: string): OverviewView {
    const nowMs = deps.now()
    for (const [id, { askedMs }] of views) if (askedMs < nowMs - keptMs) views.delete(id)
    const view = views.get(workspaceId)?.view ?? new OverviewView(workspaceId)
    views.set(workspaceId, { view, askedMs: nowMs })
    return view
  }

  return {
    /**
     * `since`: the revision that the caller has. Without one, or with an unknown one, the caller gets everything.
     * Only pipes that the caller can access are shown, and the number of pipes per node counts only those. Buffer,
     * service and node names describe the daemon and are shown to every workspace.
     */
    async getOverview({ principal, query: { since } }: Call<'getOverview'>): Promise<Overview> {
      const { workspaceId } = principal
      const view = viewOf(workspaceId)
      const parts = await runs.run(workspaceId, async () => {
        const facts = deps.serviceFacts()
        const cluster = (await deps.cluster?.()) ?? null
        await Promise.all([view.refresh(deps, nodeNames(cluster)), facts])
        return { ...(await serviceParts(deps, facts)), cluster }
      })
      const overview = { ...view.since(since ?? null, deps.now()), ...parts }
      const pipeIds = view.pipeIds().filter((pipeId) => isForPipe(principal, pipeId))
      return {
        ...overview,
        cluster: parts.cluster && shownCluster(parts.cluster, pipeIds),
        pipes: overview.pipes.filter((pipe) => isForPipe(principal, pipe.pipe_id)),
        removed_pipe_ids: overview.removed_pipe_ids.filter((pipeId) => isForPipe(principal, pipeId)),
      }
    },
  }
}

function nodeNames(cluster: ClusterFacts | null): ReadonlyMap<string, string> {
  if (cluster === null) return noNodes
  const names = new Map(cluster.nodes.map(({ nodeId, nodeName }) => [nodeId, nodeName]))
  const byPipe = new Map<string, string>()
  for (const [pipeId, nodeId] of cluster.owners) {
    const name = names.get(nodeId)
    if (name !== undefined) byPipe.set(pipeId, name)
  }
  return byPipe
}

const noNodes = new Map<string, string>()

function shownCluster({ nodes, owners }: ClusterFacts, pipeIds: readonly string[]): OverviewCluster {
  const owned = new Map(nodes.map(({ nodeId }) => [nodeId, 0]))
  let unowned = 0
  for (const pipeId of pipeIds) {
    const nodeId = owners.get(pipeId) ?? ''
    const before = owned.get(nodeId)
    if (before === undefined) unowned += 1
    else owned.set(nodeId, before + 1)
  }
  const shown = nodes.map(({ nodeId, nodeName, state, isThis }) => ({
    node_name: nodeName,
    node_state: state,
    owned_pipes: owned.get(nodeId) ?? 0,
    is_this: isThis,
  }))
  return { nodes: shown.sort((a, b) => (a.node_name < b.node_name ? -1 : 1)), unowned_pipes: unowned }
}

type ServiceParts = Pick<Overview, 'buffer' | 'service'> & { cluster: ClusterFacts | null }

async function serviceParts(
  { isPrivateDenied }: Deps,
  facts: ReturnType<Deps['serviceFacts']>,
): Promise<Omit<ServiceParts, 'cluster'>> {
  const { buffer, service } = await facts
  return { buffer, service: { ...service, egress_private: isPrivateDenied() ? 'deny' : 'allow' } }
}
