/**
 * The overview: what metadata, the lanes and ingest know, put together. However many screens ask for it, it is made once at a
 * time for a workspace.
 */
import type { LaneStatus } from '../contract/destination.ts'
import type { Overview, OverviewPipe, PipeCounters, UsageToday } from '../contract/overview.ts'
import type { IngestCounts, StoredOverviewPipe } from '../metadata/store.ts'
import { dayMs } from '../quantities.ts'
import type { ManagementDeps } from './deps.ts'
import { initialLaneStatus } from './destinations.ts'
import { SharedRuns } from './shared-runs.ts'
import { addCounts, laterIngest } from './usage.ts'

type Deps = Pick<
  ManagementDeps,
  'metadata' | 'delivery' | 'now' | 'pendingUsage' | 'ingestTotals' | 'serviceFacts' | 'isPrivateDenied'
>

export function overviewUseCases(deps: Deps) {
  const runs = new SharedRuns<Overview>()
  return {
    getOverview: (workspaceId: string): Promise<Overview> =>
      runs.run(workspaceId, () => makeOverview(deps, workspaceId)),
  }
}

async function makeOverview(deps: Deps, workspaceId: string): Promise<Overview> {
  const nowMs = deps.now()
  const midnightMs = nowMs - (nowMs % dayMs)
  // Taken before the roll-ups are read: a flush between the two would otherwise hide counts from both.
  const pending = (deps.pendingUsage?.() ?? []).filter(({ hourMs }) => hourMs >= midnightMs)
  const pipes = await deps.metadata.overview(workspaceId, midnightMs)
  const ids = pipes.flatMap(({ destinations }) => destinations.map((one) => one.destination_id))
  const withoutLanes = pipes.filter((pipe) => pipe.destinations.length === 0).map((pipe) => pipe.pipe_id)
  const [lanes, backlogs, facts] = await Promise.all([
    lanesOf(deps.delivery, ids),
    deps.delivery.backlogs(withoutLanes),
    deps.serviceFacts(),
  ])
  const counters = deps.ingestTotals()
  const shown = pipes.map((pipe) => {
    const found = { ...shownPipe(pipe, lanes), counters: countersOf(counters.get(pipe.pipe_id)) }
    const backlog = backlogs[pipe.pipe_id]
    if (backlog === undefined) return found
    const { pending_messages, pending_bytes } = backlog
    return { ...found, pending_messages, pending_bytes }
  })
  addPending(shown, pending)
  return {
    server_ts: new Date(nowMs).toISOString(),
    pipes: shown,
    buffer: facts.buffer,
    service: { ...facts.service, egress_private: deps.isPrivateDenied() ? 'deny' : 'allow' },
  }
}

/** Each costs delivery about 40 µs: asked for in parts, so that it can do something else in between. */
const lanesAtOnce = 200

async function lanesOf(
  delivery: Deps['delivery'],
  ids: readonly string[],
): Promise<Record<string, LaneStatus>> {
  const parts: Promise<Record<string, LaneStatus>>[] = []
  for (let at = 0; at < ids.length; at += lanesAtOnce)
    parts.push(delivery.lanes(ids.slice(at, at + lanesAtOnce)))
  return Object.assign({}, ...(await Promise.all(parts)))
}

function shownPipe(
  { destinations, ...pipe }: StoredOverviewPipe,
  lanes: Readonly<Record<string, LaneStatus>>,
): Omit<OverviewPipe, 'counters'> {
  const shown = destinations.map((destination) => ({
    ...destination,
    lane: lanes[destination.destination_id] ?? initialLaneStatus(destination.destination_status),
  }))
  return {
    ...pipe,
    usage_today: { ...pipe.usage_today },
    // What waits in a pipe is what waits for its slowest lane.
    pending_messages: Math.max(0, ...shown.map(({ lane }) => lane.pending_messages)),
    pending_bytes: Math.max(0, ...shown.map(({ lane }) => lane.pending_bytes)),
    lanes: shown,
  }
}

function countersOf(byWorker: ReturnType<ReturnType<Deps['ingestTotals']>['get']>): PipeCounters {
  const sum = { ingest_requests: 0, ingest_records: 0, ingest_bytes: 0, rejected_requests: 0 }
  for (const { requests, records, bytes, rejected } of byWorker?.values() ?? []) {
    sum.ingest_requests += requests
    sum.ingest_records += records
    sum.ingest_bytes += bytes
    sum.rejected_requests += rejected
  }
  return sum
}

/** What ingest has counted and not yet stored. */
function addPending(
  pipes: readonly { pipe_id: string; usage_today: UsageToday; last_ingest_ts: string | null }[],
  pending: readonly IngestCounts[],
): void {
  const byId = new Map(pipes.map((pipe) => [pipe.pipe_id, pipe]))
  for (const counts of pending) {
    const pipe = byId.get(counts.pipeId)
    if (pipe === undefined) continue
    addCounts(pipe.usage_today, counts)
    pipe.last_ingest_ts = laterIngest(pipe.last_ingest_ts, counts)
  }
}
