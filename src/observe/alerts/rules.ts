/**
 * Decides which alerts to send: compares one check of a workspace's lanes and of the service with the stored marks
 * (`marks.ts`). Pure. `contract/alert-words.ts` explains the events.
 */
import type { AlertEvent } from '../../contract/alert-words.ts'
import type { ColumnFailure, UnmappedKeys } from '../../contract/drift.ts'
import { lagAlertSeconds, lagOverSeconds } from '../../contract/replica-words.ts'
import { isFailing } from '../../contract/state-words.ts'
import type { LaneTrouble } from '../../delivery/delivery.ts'
import type { AlertMark } from '../../metadata/alert-store.ts'
import type { ParkedAtPipe } from '../../metadata/pipe-parked-port.ts'
import { hourMs, minuteMs } from '../../platform/quantities.ts'
import { DraftMarks, type Marks } from './marks.ts'

/** The facts of an alert, before its text is written. */
export type AlertFact = { heldBack: number } & (
  | { type: 'lane.failing' | 'lane.stuck' | 'lane.stalled' | 'lane.recovered'; lane: LaneTrouble }
  | { type: 'message.parked' | 'messages.dropped'; lane: LaneTrouble; count: number }
  | { type: 'pipe.parked'; pipe: ParkedAtPipe; count: number }
  | { type: 'retention.near'; lane: LaneTrouble; oldestPendingMs: number }
  | { type: 'lane.drift'; lane: LaneTrouble; unmapped: UnmappedKeys }
  | { type: 'columns.not_added'; lane: LaneTrouble; failure: ColumnFailure }
  | { type: 'buffer.near_full'; reason: 'size' | 'disk' }
  | { type: 'replica.lagging'; lagMs: number }
  | { type: 'daemon.restarted_after_crash'; startedMs: number | null }
)

export interface AlertCheck {
  nowMs: number
  /** Lanes in trouble, and every lane that has a mark. */
  lanes: readonly LaneTrouble[]
  /** Pipes with parked records, and every pipe that has a mark. */
  pipes: readonly ParkedAtPipe[]
  /** Null: neither near the limit nor clearly below it. */
  nearFull: { holds: boolean; isOver: boolean; reason: 'size' | 'disk' }
  /** The age of the newest moment that is in the replica. Null: there is no replica. */
  replicaLagMs: number | null
  /** Set if the previous run did not stop normally. */
  crash: { startedMs: number | null } | null
  /** Undelivered messages older than this are dropped. */
  undeliveredMs: number
  /** The first check does not report earlier losses of a lane. */
  isFirst: boolean
}

export interface AlertChanges {
  alerts: AlertFact[]
  marks: AlertMark[]
  gone: AlertMark[]
}

const severeFailures = ['lane.stalled', 'lane.stuck'] as const
const failureEvents = [...severeFailures, 'lane.failing'] as const
const nearRetention = 0.8

/** `room` is the number of alerts that can be queued. Alerts without room are sent in a later check. */
export function evaluateAlerts(
  check: AlertCheck,
  events: ReadonlySet<AlertEvent>,
  stored: Marks,
  room: number,
): AlertChanges {
  const draft = new DraftMarks(stored, check.nowMs, room)
  const alerts: AlertFact[] = [...serviceAlerts(check, events, draft)]
  for (const lane of check.lanes) alerts.push(...laneAlerts(lane, check, events, draft))
  for (const pipe of check.pipes) {
    const counter = {
      subject: pipe.pipeId,
      type: 'pipe.parked',
      current: pipe.records,
      gatherMs: minuteMs,
    } as const
    const count = increase(counter, check, events, draft)
    if (count !== null) alerts.push({ type: 'pipe.parked', pipe, count, heldBack: 0 })
  }
  const subjects = new Set([
    ...['', ...check.lanes.map((lane) => lane.destinationId)],
    ...check.pipes.map((pipe) => pipe.pipeId),
  ])
  return { alerts, ...draft.result((subject) => subjects.has(subject)) }
}

function* serviceAlerts(
  { nearFull, crash, replicaLagMs }: AlertCheck,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const { holds, isOver, reason } = nearFull
  const isWanted = events.has('buffer.near_full')
  const full = draft.checkCondition('', 'buffer.near_full', { holds: holds && isWanted, isOver })
  if (full !== null) yield { type: 'buffer.near_full', reason, heldBack: full }
  const lagSeconds = (replicaLagMs ?? 0) / 1_000
  const behind = draft.checkCondition('', 'replica.lagging', {
    holds: lagSeconds > lagAlertSeconds && events.has('replica.lagging'),
    isOver: lagSeconds < lagOverSeconds,
  })
  if (behind !== null && replicaLagMs !== null)
    yield { type: 'replica.lagging', lagMs: replicaLagMs, heldBack: behind }
  if (!events.has('daemon.restarted_after_crash')) return
  const crashed = draft.checkOccurrence('', 'daemon.restarted_after_crash', crash !== null)
  if (crashed !== null)
    yield { type: 'daemon.restarted_after_crash', startedMs: crash?.startedMs ?? null, heldBack: crashed }
}

function* laneAlerts(
  lane: LaneTrouble,
  check: AlertCheck,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  yield* failureAlerts(lane, check, events, draft)
  for (const [type, current, gatherMs] of [
    ['messages.dropped', lane.droppedMessages, 0],
    ['message.parked', lane.parkedRecords, minuteMs],
  ] as const) {
    const count = increase({ subject: lane.destinationId, type, current, gatherMs }, check, events, draft)
    if (count !== null) yield { type, lane, count, heldBack: 0 }
  }
  const { oldestPendingMs } = lane
  const holds =
    oldestPendingMs !== null &&
    check.nowMs - oldestPendingMs > nearRetention * droppedAfterMs(lane, check.undeliveredMs)
  const isWanted = events.has('retention.near')
  const near = draft.checkCondition(lane.destinationId, 'retention.near', {
    holds: holds && isWanted,
    isOver: !holds,
  })
  if (near !== null && oldestPendingMs !== null)
    yield { type: 'retention.near', lane, oldestPendingMs, heldBack: near }
  yield* driftAlerts(lane, events, draft)
}

/** While nothing is known, for example after a restart, a raised alert stays raised. */
function* driftAlerts(
  lane: LaneTrouble,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const { destinationId, unmapped = null } = lane
  const holds = unmapped !== null && unmapped.keys > 0
  const heldBack = draft.checkCondition(destinationId, 'lane.drift', {
    holds: holds && events.has('lane.drift'),
    isOver: unmapped?.keys === 0,
  })
  if (heldBack !== null && holds) yield { type: 'lane.drift', lane, unmapped, heldBack }
  const failure = lane.columnFailure ?? null
  const failed = draft.checkCondition(destinationId, 'columns.not_added', {
    holds: failure !== null && events.has('columns.not_added'),
    isOver: failure === null,
  })
  if (failed !== null && failure !== null)
    yield { type: 'columns.not_added', lane, failure, heldBack: failed }
}

/** Undelivered messages of the lane's pipe are dropped at this age. */
export function droppedAfterMs({ retentionHours }: LaneTrouble, undeliveredMs: number): number {
  return Math.min(undeliveredMs, (retentionHours ?? Number.POSITIVE_INFINITY) * hourMs)
}

function* failureAlerts(
  lane: LaneTrouble,
  { nowMs }: AlertCheck,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const { destinationId: id, failure, isHalted } = lane
  if (isHalted) return
  const isRaised = () => failureEvents.some((event) => draft.get(id, event).state === 'raised')
  const wasRaised = isRaised()
  for (const type of failureEvents) {
    // The same failure was already reported, or held back, as another event.
    const isReported =
      type === 'lane.failing' && severeFailures.some((event) => draft.get(id, event).state !== 'none')
    const holds = !isReported && events.has(type) && failureHolds(type, lane, nowMs)
    const isOver = failure === null && hasRecovered(lane, draft.get(id, type).sinceMs)
    const heldBack = draft.checkCondition(id, type, { holds, isOver })
    if (heldBack !== null) yield { type, lane, heldBack }
  }
  const recovered = draft.get(id, 'lane.recovered')
  if (isRaised()) {
    // A held-back recovery is no longer true.
    if (recovered.state === 'held') draft.set({ ...recovered, state: 'none', sinceMs: null })
    return
  }
  if (!events.has('lane.recovered') || failure !== null) return
  const heldBack = draft.checkOccurrence(id, 'lane.recovered', wasRaised)
  if (heldBack !== null) yield { type: 'lane.recovered', lane, heldBack }
}

function failureHolds(
  type: (typeof failureEvents)[number],
  { failure }: LaneTrouble,
  nowMs: number,
): boolean {
  if (failure === null) return false
  switch (type) {
    case 'lane.stalled':
      return failure.isStalled
    case 'lane.stuck':
      return failure.isStuck
    case 'lane.failing':
      return isFailing(
        {
          lane_state: 'retrying',
          attempts: failure.attempts,
          first_failed_ts: new Date(failure.firstFailedMs).toISOString(),
          last_error: failure.error,
        },
        nowMs,
      )
  }
}

/**
 * After a skip or a rewind the next message is still untried. The lane has recovered only when that message is
 * delivered.
 */
function hasRecovered({ isIdle, lastDeliveredMs }: LaneTrouble, sinceMs: number | null): boolean {
  return isIdle || (lastDeliveredMs !== null && lastDeliveredMs >= (sinceMs ?? 0))
}

interface CountedEvent {
  /** The id of the lane or of the pipe. */
  subject: string
  type: 'message.parked' | 'messages.dropped' | 'pipe.parked'
  current: number
  gatherMs: number
}

/**
 * Returns an increase since the last check that is to be reported, or null. After a decrease (a replay) it counts from
 * the lower value. An increase that is not reported yet becomes part of the next one, so none is lost.
 */
function increase(
  { subject, type, current, gatherMs }: CountedEvent,
  { nowMs, isFirst }: AlertCheck,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): number | null {
  const mark = draft.get(subject, type)
  const hasIncreased = current > mark.counted && !isFirst && events.has(type)
  if (!hasIncreased) {
    if (current !== mark.counted) draft.set({ ...mark, counted: current, sinceMs: null })
    return null
  }
  const sinceMs = mark.sinceMs ?? nowMs
  if (nowMs - sinceMs < gatherMs || !draft.reserve(mark)) {
    if (mark.sinceMs === null) draft.set({ ...mark, sinceMs })
    return null
  }
  draft.set({ ...mark, counted: current, sinceMs: null, alertedMs: nowMs })
  return current - mark.counted
}
