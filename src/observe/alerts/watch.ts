/**
 * Checks the lanes and pipes of workspaces with alerts every few seconds, and queues new alerts (rules.ts). Without such a
 * workspace, only the alert settings are read. The result of a check takes effect only when it is durable. A check
 * whose result cannot be stored is repeated.
 */
import { randomUUID } from 'node:crypto'
import { type AlertEvent, alertEventNames } from '../../contract/alert-words.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { LaneTrouble, TroubleQuery } from '../../delivery/delivery.ts'
import type { BufferStatus } from '../../log/buffer.ts'
import type { AlertMark, QueuedAlert, WatchedWorkspace } from '../../metadata/alert-store.ts'
import type { ParkedAtPipe } from '../../metadata/pipe-parked-port.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { hourMs } from '../../platform/quantities.ts'
import { markKey, marksOf } from './marks.ts'
import { type AlertNames, type Named, standardAlert } from './message.ts'
import { type AlertCheck, type AlertFact, evaluateAlerts } from './rules.ts'

export interface WatchDeps {
  metadata: Pick<Metadata, 'alertStore' | 'pipes' | 'pipeParked' | 'destinations' | 'workspaces'>
  /** Null: delivery does not respond. */
  troubles(query: TroubleQuery): Promise<LaneTrouble[] | null>
  bufferStatus(): Promise<BufferStatus>
  /** See `AlertCheck`. */
  replicaLagMs(): Promise<number | null>
  limits: { maxBytes: number; minFreeBytes: number; undeliveredHours: number }
  /** Set if the previous run did not stop normally. */
  crash(): { startedMs: number | null } | null
  /** The crash was reported to every workspace that wants this event. */
  settleCrash(): void
  /** The URL of the dashboard, without a slash at the end. Null: not known. */
  dashboardUrl: string | null
  /** The workspace has something to send. */
  onQueued(workspaceId: string): void
  log: Logger
  now: () => number
}

const nearFull = 0.8
/** The alert ends below this level, so that a buffer that stays near the limit raises only one alert. */
const clearlyNotFull = 0.75
const nearFreeFactor = 2
const clearlyFreeFactor = 2.2
/**
 * Lanes are asked for the age of pending messages only if the buffer contains messages older than this fraction of the
 * limit.
 */
const agedFraction = 0.5

export class AlertWatch {
  readonly #deps: WatchDeps
  readonly #marks = new Map<string, Map<string, AlertMark>>()

  constructor(deps: WatchDeps) {
    this.#deps = deps
  }

  async check(): Promise<void> {
    const { metadata, settleCrash, onQueued } = this.#deps
    const workspaces = await metadata.alertStore.workspaces()
    const ids = new Set(workspaces.map(({ workspaceId }) => workspaceId))
    for (const id of this.#marks.keys()) if (!ids.has(id)) this.#marks.delete(id)
    if (workspaces.length === 0) return settleCrash()
    for (const { workspaceId, pending } of workspaces) if (pending > 0) onQueued(workspaceId)
    for (const { workspaceId } of workspaces) await this.#load(workspaceId)
    const service = await this.#service()
    const lanes = await this.#lanes([...ids], service.isAged)
    // Without a response nothing is known about the lanes. Raised alerts stay raised.
    if (lanes === null) return
    const parked = await metadata.pipeParked.counts()
    for (const workspace of workspaces) {
      const { workspaceId } = workspace
      const pipes = this.#pipes(workspaceId, parked)
      await this.#raise(workspace, { ...service.check, lanes: lanes.get(workspaceId) ?? [], pipes })
    }
    settleCrash()
  }

  async #load(workspaceId: string): Promise<void> {
    if (this.#marks.has(workspaceId)) return
    this.#marks.set(workspaceId, marksOf(await this.#deps.metadata.alertStore.marks(workspaceId)))
  }

  async #service(): Promise<{ check: Omit<AlertCheck, 'lanes' | 'pipes' | 'isFirst'>; isAged: boolean }> {
    const { bufferStatus, replicaLagMs, limits, crash, now } = this.#deps
    const [status, lagMs] = await Promise.all([bufferStatus(), replicaLagMs()])
    const undeliveredMs = limits.undeliveredHours * hourMs
    const nowMs = now()
    return {
      check: {
        nowMs,
        nearFull: fullness(status, limits),
        replicaLagMs: lagMs,
        crash: crash(),
        undeliveredMs,
      },
      isAged: status.oldestMs !== null && nowMs - status.oldestMs > agedFraction * undeliveredMs,
    }
  }

  /** By workspace: lanes in trouble, and lanes that have a mark. */
  async #lanes(workspaceIds: string[], withAges: boolean): Promise<Map<string, LaneTrouble[]> | null> {
    const marks = [...this.#marks.values()].flatMap((ofWorkspace) => [...ofWorkspace.values()])
    const ofLanes = marks.filter(({ subject, event }) => subject !== '' && event !== 'pipe.parked')
    const destinationIds = [...new Set(ofLanes.map(({ subject }) => subject))]
    const troubles = await this.#deps.troubles({ workspaceIds, destinationIds, withAges })
    if (troubles === null) return null
    const byWorkspace = new Map<string, LaneTrouble[]>()
    for (const lane of troubles) {
      const others = byWorkspace.get(lane.workspaceId)
      if (others === undefined) byWorkspace.set(lane.workspaceId, [lane])
      else others.push(lane)
    }
    return byWorkspace
  }

  /** The pipes of a workspace with parked records, and pipes that have a mark. */
  #pipes(workspaceId: string, parked: readonly ParkedAtPipe[]): ParkedAtPipe[] {
    const own = parked.filter((pipe) => pipe.workspaceId === workspaceId)
    const known = new Set(own.map(({ pipeId }) => pipeId))
    for (const { subject, event } of this.#marks.get(workspaceId)?.values() ?? [])
      if (event === 'pipe.parked' && !known.has(subject))
        own.push({ workspaceId, pipeId: subject, records: 0 })
    return own
  }

  async #raise(workspace: WatchedWorkspace, check: Omit<AlertCheck, 'isFirst'>): Promise<void> {
    const { workspaceId, events, hasBegun, pending } = workspace
    const { metadata, onQueued, log } = this.#deps
    const marks = this.#marks.get(workspaceId) ?? new Map<string, AlertMark>()
    const wanted = new Set<AlertEvent>(events ?? alertEventNames)
    const room = resourceLimits.alertsPerWorkspace - pending
    const changes = evaluateAlerts({ ...check, isFirst: !hasBegun }, wanted, marks, room)
    if (hasBegun && changes.marks.length + changes.gone.length + changes.alerts.length === 0) return
    const alerts = await this.#withTexts(workspaceId, changes.alerts, check)
    if (!(await metadata.alertStore.record(workspaceId, { ...changes, alerts }))) return
    for (const mark of changes.gone) marks.delete(markKey(mark))
    for (const mark of changes.marks) marks.set(markKey(mark), mark)
    for (const { type } of changes.alerts) log.info({ workspace_id: workspaceId, type }, 'alert.raised')
    if (alerts.length > 0) onQueued(workspaceId)
  }

  async #withTexts(
    workspaceId: string,
    facts: readonly AlertFact[],
    { nowMs, undeliveredMs }: Pick<AlertCheck, 'nowMs' | 'undeliveredMs'>,
  ): Promise<QueuedAlert[]> {
    if (facts.length === 0) return []
    const workspaces = await this.#deps.metadata.workspaces.list()
    const name = workspaces.find((one) => one.workspaceId === workspaceId)?.name ?? ''
    const workspace = { id: workspaceId, name }
    const alerts: QueuedAlert[] = []
    for (const fact of facts) {
      const alertId = randomUUID()
      const names: AlertNames = { workspace, ...(await this.#names(fact)) }
      const alert = standardAlert(fact, names, { alertId, nowMs, undeliveredMs })
      alerts.push({ alertId, atMs: nowMs, json: JSON.stringify(alert) })
    }
    return alerts
  }

  async #names(fact: AlertFact): Promise<Omit<AlertNames, 'workspace'>> {
    const { dashboardUrl } = this.#deps
    if ('lane' in fact) return await this.#laneNames(fact.lane)
    if (!('pipe' in fact)) return { url: dashboardUrl }
    return {
      pipe: await this.#pipeName(fact.pipe),
      url: dashboardUrl && `${dashboardUrl}/pipes/${fact.pipe.pipeId}/parked`,
    }
  }

  async #pipeName({ workspaceId, pipeId }: PipeRef): Promise<Named> {
    const pipe = await this.#deps.metadata.pipes.get({ workspaceId, pipeId })
    return { id: pipeId, name: pipe?.pipe_name ?? '' }
  }

  async #laneNames(lane: LaneTrouble): Promise<Omit<AlertNames, 'workspace'>> {
    const { metadata, dashboardUrl } = this.#deps
    const { workspaceId, pipeId, destinationId } = lane
    const destination = await metadata.destinations.get({ workspaceId, destinationId })
    const type = destination?.destination_type
    const kind = type === undefined ? '' : wordsOf(type).kind
    return {
      pipe: await this.#pipeName(lane),
      destination: {
        id: destinationId,
        name: destination?.destination_name ?? kind,
        type: type ?? '',
      },
      url: dashboardUrl && `${dashboardUrl}/pipes/${pipeId}/destinations/${destinationId}`,
    }
  }
}

function fullness(
  { bytes, freeBytes, unavailableReason }: BufferStatus,
  { maxBytes, minFreeBytes }: WatchDeps['limits'],
): AlertCheck['nearFull'] {
  const isOfDisk = freeBytes < nearFreeFactor * minFreeBytes || unavailableReason === 'low_disk_space'
  const isOfSize = bytes >= nearFull * maxBytes || unavailableReason === 'over_quota'
  return {
    holds: isOfDisk || isOfSize,
    isOver:
      unavailableReason === null &&
      bytes < clearlyNotFull * maxBytes &&
      freeBytes >= clearlyFreeFactor * minFreeBytes,
    reason: isOfDisk ? 'disk' : 'size',
  }
}
