/**
 * The overview: what metadata, the lanes and ingest know, put together. However many screens ask for it, it is looked at
 * once at a time for a workspace, and what a look costs is what has changed since the last one: overview-view.ts.
 */
import type { Overview } from '../contract/overview.ts'
import { isForPipe, type Principal } from '../directory/principal.ts'
import { minuteMs } from '../quantities.ts'
import type { ManagementDeps } from './deps.ts'
import { OverviewView } from './overview-view.ts'
import { SharedRuns } from './shared-runs.ts'

type Deps = Pick<
  ManagementDeps,
  'metadata' | 'delivery' | 'now' | 'pendingUsage' | 'ingestTotals' | 'serviceFacts' | 'isPrivateDenied'
>

/** A workspace that nobody has looked at for so long is forgotten: who looks again gets everything. */
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
     * `since`: the revision that the caller has; null, or one that is not known here: it gets everything. Cut to the pipes that
     * the caller is for; buffer and service are the daemon's, which every workspace is shown.
     */
    async getOverview(principal: Principal, since: string | null): Promise<Overview> {
      const { workspaceId } = principal
      const view = viewOf(workspaceId)
      const parts = await runs.run(workspaceId, async () => {
        const facts = deps.serviceFacts()
        await Promise.all([view.look(deps), facts])
        return await serviceParts(deps, facts)
      })
      const overview = { ...view.since(since, deps.now()), ...parts }
      return {
        ...overview,
        pipes: overview.pipes.filter((pipe) => isForPipe(principal, pipe.pipe_id)),
        removed_pipe_ids: overview.removed_pipe_ids.filter((pipeId) => isForPipe(principal, pipeId)),
      }
    },
  }
}

type ServiceParts = Pick<Overview, 'buffer' | 'service'>

async function serviceParts(
  { isPrivateDenied }: Deps,
  facts: ReturnType<Deps['serviceFacts']>,
): Promise<ServiceParts> {
  const { buffer, service } = await facts
  return { buffer, service: { ...service, egress_private: isPrivateDenied() ? 'deny' : 'allow' } }
}
