/**
 * The pipes of one workspace as the overview shows them, kept between refreshes, with the revision at which each last
 * changed. A refresh reads metadata only if it was written, gets only changed lanes from delivery, and rebuilds only
 * the affected pipes: when nothing happens, 500 pipes with 1,000 lanes take about a millisecond.
 *
 *   refresh ──▶ the current state of metadata, lanes and ingest ──▶ changed pipes get the next revision
 *   since(revision) ──▶ the pipes with a later revision
 *
 * A refresh reads everything before it changes anything here: if it fails, the view stays as it was.
 */
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { LaneStatus } from '../../contract/destination.ts'
import type { Overview, OverviewPipe, PipeCounters } from '../../contract/overview.ts'
import { noUsageCounts, type UsageCounts } from '../../contract/usage.ts'
import type { PipeBacklog } from '../../delivery/delivery.ts'
import type { StoredOverviewPipe } from '../../metadata/overview.ts'
import type { IngestCounts } from '../../metadata/usage.ts'
import { dayMs } from '../../platform/quantities.ts'
import type { ManagementDeps } from './deps.ts'
import { initialLaneStatus } from './destinations.ts'
import { addCounts, laterIngest } from './usage.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'laneViews' | 'now' | 'pendingUsage' | 'ingestTotals'>

/** The pipes as metadata returned them, and a version that is never newer than they are. */
interface StoredPipes {
  version: string
  sinceMs: number
  pipes: readonly StoredOverviewPipe[]
}

/** A lane as delivery reported it, and the time of the report: its age is counted from then. */
interface SeenLane {
  status: LaneStatus
  atMs: number
}

/** The counts of ingest since the start, and the part of them that is not stored yet. */
interface Counted {
  counters: PipeCounters
  pending: UsageCounts
  lastIngestMs: number | null
}

/** The backlog of a pipe without lanes, and the counters at which it was read. */
interface SeenBacklog {
  backlog: PipeBacklog
  ofRequests: number
  askedMs: number
}

interface Entry {
  stored: StoredOverviewPipe
  counted: Counted
  backlog: PipeBacklog | null
  nodeName: string | null
  shown: OverviewPipe
  revision: number
}

/**
 * The number of deleted pipes that are remembered, so that they can be reported to clients that know them. A client
 * with an older revision gets everything.
 */
const removedKept = 1_000
/** How long the backlog of a pipe without lanes is kept: retention shrinks it. New messages are noticed at once. */
const backlogKeptMs = 30_000

export class OverviewView {
  readonly #workspaceId: string
  /** Revisions of another view, including those before a restart, are not valid in this one. */
  readonly #id = randomUUID()
  #revision = 0
  #stored: StoredPipes | null = null
  readonly #lanes = new Map<string, SeenLane>()
  #lanesRevision: string | null = null
  readonly #backlogs = new Map<string, SeenBacklog>()
  readonly #entries = new Map<string, Entry>()
  /** The revision that removed each pipe, in that order. */
  readonly #removed = new Map<string, number>()
  #forgottenRevision = -1

  constructor(workspaceId: string) {
    this.#workspaceId = workspaceId
  }

  /** `nodeNames`: the node of the cluster that delivers each pipe. */
  async refresh(
    { metadata, laneViews, now, pendingUsage, ingestTotals }: Deps,
    nodeNames: ReadonlyMap<string, string>,
  ): Promise<void> {
    const nowMs = now()
    const sinceMs = nowMs - (nowMs % dayMs)
    // Read before the roll-ups: a flush between the two would otherwise hide counts from both.
    const pending = (pendingUsage?.() ?? []).filter(({ hourMs }) => hourMs >= sinceMs)
    const stored = await this.#readStored(metadata, sinceMs)
    const ids = stored.pipes.flatMap((pipe) => pipe.destinations.map((one) => one.destination_id))
    const counted = countedByPipe(ingestTotals(), pending)
    const asked = this.#withoutLanes(stored, counted, nowMs)
    const [lanes, backlogs] = await Promise.all([
      laneViews.lanesSince(ids, this.#lanesRevision),
      asked.length === 0 ? noBacklogs : laneViews.backlogs(asked),
    ])
    this.#stored = stored
    this.#keepLanes(ids, lanes.lanes, nowMs)
    this.#lanesRevision = lanes.revision
    for (const [pipeId, backlog] of Object.entries(backlogs)) {
      const ofRequests = counted.get(pipeId)?.counters.ingest_requests ?? 0
      this.#backlogs.set(pipeId, { backlog, ofRequests, askedMs: nowMs })
    }
    this.#update(stored, counted, new Set(Object.keys(lanes.lanes)), nodeNames)
  }

  pipeIds(): string[] {
    return [...this.#entries.keys()]
  }

  /** Returns everything if `since` is null or is not a revision that this view can continue from. */
  since(
    since: string | null,
    nowMs: number,
  ): Pick<Overview, 'revision' | 'since' | 'server_ts' | 'pipes' | 'removed_pipe_ids'> {
    const from = this.#parse(since)
    const pipes: OverviewPipe[] = []
    for (const { pipe_id } of this.#stored?.pipes ?? []) {
      const entry = this.#entries.get(pipe_id)
      if (entry !== undefined && entry.revision > (from ?? -1)) pipes.push(this.#aged(entry.shown, nowMs))
    }
    const removed = from === null ? [] : [...this.#removed].filter(([, revision]) => revision > from)
    return {
      revision: `${this.#id}.${this.#revision}`,
      since: from === null ? null : since,
      server_ts: new Date(nowMs).toISOString(),
      pipes,
      removed_pipe_ids: removed.map(([pipeId]) => pipeId),
    }
  }

  #parse(since: string | null): number | null {
    const [, id, text] = /^([0-9a-f-]{36})\.(\d{1,15})$/.exec(since ?? '') ?? []
    const revision = Number(text)
    if (id !== this.#id || revision > this.#revision || revision < this.#forgottenRevision) return null
    return revision
  }

  /** A pipe that has not changed keeps its object, so that it can be compared by identity. */
  async #readStored(metadata: Deps['metadata'], sinceMs: number): Promise<StoredPipes> {
    const known = this.#stored
    const version = await metadata.version()
    if (known !== null && known.version === version && known.sinceMs === sinceMs) return known
    const pipes = await metadata.overview(this.#workspaceId, sinceMs)
    const same = (pipe: StoredOverviewPipe) => {
      const before = this.#entries.get(pipe.pipe_id)?.stored
      return before !== undefined && isDeepStrictEqual(before, pipe) ? before : pipe
    }
    return { version, sinceMs, pipes: pipes.map(same) }
  }

  /** Pipes without lanes whose backlog may have changed. */
  #withoutLanes({ pipes }: StoredPipes, counted: ReadonlyMap<string, Counted>, nowMs: number): string[] {
    const isOld = (pipeId: string) => {
      const seen = this.#backlogs.get(pipeId)
      const requests = counted.get(pipeId)?.counters.ingest_requests ?? 0
      return seen === undefined || seen.ofRequests !== requests || nowMs - seen.askedMs >= backlogKeptMs
    }
    return pipes
      .filter((pipe) => pipe.destinations.length === 0 && isOld(pipe.pipe_id))
      .map((pipe) => pipe.pipe_id)
  }

  #keepLanes(ids: readonly string[], changed: Readonly<Record<string, LaneStatus>>, atMs: number): void {
    for (const [id, status] of Object.entries(changed)) this.#lanes.set(id, { status, atMs })
    if (this.#lanes.size <= ids.length) return
    const existing = new Set(ids)
    for (const id of this.#lanes.keys()) if (!existing.has(id)) this.#lanes.delete(id)
  }

  #update(
    { pipes }: StoredPipes,
    counted: ReadonlyMap<string, Counted>,
    changedLanes: ReadonlySet<string>,
    nodeNames: ReadonlyMap<string, string>,
  ): void {
    const next = this.#revision + 1
    for (const stored of pipes) {
      const id = stored.pipe_id
      const hasLanes = stored.destinations.length > 0
      const backlog = hasLanes ? null : (this.#backlogs.get(id)?.backlog ?? null)
      const nodeName = nodeNames.get(id) ?? null
      const inputs = { stored, counted: counted.get(id) ?? nothingCounted, backlog, nodeName }
      const known = this.#entries.get(id)
      const isSame =
        known !== undefined &&
        known.stored === stored &&
        known.backlog === backlog &&
        known.nodeName === nodeName &&
        isDeepStrictEqual(known.counted, inputs.counted) &&
        !stored.destinations.some((one) => changedLanes.has(one.destination_id))
      if (isSame) continue
      const shown = this.#show(inputs)
      const revision = known !== undefined && isDeepStrictEqual(known.shown, shown) ? known.revision : next
      if (revision === next) this.#revision = next
      this.#entries.set(id, { ...inputs, shown, revision })
      this.#removed.delete(id)
    }
    if (this.#entries.size > pipes.length) this.#remove(new Set(pipes.map((pipe) => pipe.pipe_id)), next)
  }

  #remove(existing: ReadonlySet<string>, revision: number): void {
    for (const id of this.#entries.keys()) {
      if (existing.has(id)) continue
      this.#entries.delete(id)
      this.#backlogs.delete(id)
      this.#removed.set(id, revision)
      this.#revision = revision
    }
    for (const [id, at] of this.#removed) {
      if (this.#removed.size <= removedKept) break
      this.#removed.delete(id)
      this.#forgottenRevision = at
    }
  }

  #show({ stored, counted, backlog, nodeName }: Omit<Entry, 'shown' | 'revision'>): OverviewPipe {
    const { destinations, last_ingest_ts, usage_today, ...pipe } = stored
    const lanes = destinations.map((destination) => ({
      ...destination,
      lane:
        this.#lanes.get(destination.destination_id)?.status ??
        initialLaneStatus(destination.destination_status),
    }))
    const usage = { ...usage_today }
    for (const name of Object.keys(counted.pending) as (keyof UsageCounts)[])
      usage[name] += counted.pending[name]
    return {
      ...pipe,
      usage_today: usage,
      counters: counted.counters,
      last_ingest_ts: laterIngest(last_ingest_ts, counted),
      // The backlog of a pipe is that of its slowest lane.
      pending_messages: Math.max(
        backlog?.pending_messages ?? 0,
        ...lanes.map(({ lane }) => lane.pending_messages),
      ),
      pending_bytes: Math.max(backlog?.pending_bytes ?? 0, ...lanes.map(({ lane }) => lane.pending_bytes)),
      node_name: nodeName,
      lanes,
    }
  }

  /** The pipe with the ages of its lanes as of now. */
  #aged(pipe: OverviewPipe, nowMs: number): OverviewPipe {
    if (pipe.lanes.every(({ lane }) => lane.pending_messages === 0)) return pipe
    const lanes = pipe.lanes.map((one) => {
      const seen = this.#lanes.get(one.destination_id)
      if (seen === undefined || one.lane.pending_messages === 0) return one
      const seconds = Math.max(0, Math.floor((nowMs - seen.atMs) / 1000))
      const age = one.lane.oldest_pending_age_seconds + seconds
      return { ...one, lane: { ...one.lane, oldest_pending_age_seconds: age } }
    })
    return { ...pipe, lanes }
  }
}

const noBacklogs: Record<string, PipeBacklog> = {}
const noCounters: PipeCounters = {
  ingest_requests: 0,
  ingest_records: 0,
  ingest_bytes: 0,
  rejected_requests: 0,
}
const nothingCounted: Counted = { counters: noCounters, pending: noUsageCounts, lastIngestMs: null }

function countedByPipe(
  totals: ReturnType<Deps['ingestTotals']>,
  pending: readonly IngestCounts[],
): Map<string, Counted> {
  const byPipe = new Map<string, Counted>()
  for (const [pipeId, byWorker] of totals) {
    const counters = { ...noCounters }
    for (const counts of byWorker.values()) addCounts(counters, counts)
    byPipe.set(pipeId, { ...nothingCounted, counters })
  }
  for (const counts of pending) {
    const known = byPipe.get(counts.pipeId) ?? nothingCounted
    const sum = { ...known.pending }
    addCounts(sum, counts)
    const lastIngestMs = Math.max(known.lastIngestMs ?? 0, counts.lastIngestMs ?? 0) || null
    byPipe.set(counts.pipeId, { ...known, pending: sum, lastIngestMs })
  }
  return byPipe
}
