/**
 * Decides which alerts to send: compares one check of a workspace's lanes and of the service with the stored marks
 * (`marks.ts`). Pure. `contract/alert-words.ts` explains the events.
 */
import type { AlertEvent } from '../../contract/alert-words.ts'
import { isFailing } from '../../contract/state-words.ts'
import type { LaneTrouble } from '../../delivery/delivery.ts'
import type { AlertMark } from '../../metadata/alert-store.ts'
import { minuteMs } from '../../platform/quantities.ts'
import { DraftMarks, type Marks } from './marks.ts'

/** The facts of an alert, before its text is written. */
export type AlertFact = { heldBack: number } & (
  | { type: 'lane.failing' | 'lane.stuck' | 'lane.stalled' | 'lane.recovered'; lane: LaneTrouble }
  | { type: 'message.parked' | 'messages.dropped'; lane: LaneTrouble; count: number }
  | { type: 'retention.near'; lane: LaneTrouble; oldestPendingMs: number }
  | { type: 'buffer.near_full'; reason: 'size' | 'disk' }
  | { type: 'daemon.restarted_after_crash'; startedMs: number | null }
)

export interface Look {
  nowMs: number
  /** Lanes in trouble, and every lane that has a mark. */
  lanes: readonly LaneTrouble[]
  /** Null: neither near the limit nor clearly below it. */
  nearFull: { holds: boolean; isOver: boolean; reason: 'size' | 'disk' }
  /** Set if the previous run did not stop normally. */
  crash: { startedMs: number | null } | null
  /** Undelivered messages older than this are dropped. */
  undeliveredMs: number
  /** The first check does not report earlier losses of a lane. */
  isFirst: boolean
}

export interface Found {
  alerts: AlertFact[]
  marks: AlertMark[]
  gone: AlertMark[]
}

const graver = ['lane.stalled', 'lane.stuck'] as const
const troubles = [...graver, 'lane.failing'] as const
const nearRetention = 0.8

/** `room` is the number of alerts that can be queued. Alerts without room are sent in a later check. */
export function lookAt(look: Look, events: ReadonlySet<AlertEvent>, stored: Marks, room: number): Found {
  const draft = new DraftMarks(stored, look.nowMs, room)
  const alerts: AlertFact[] = [...serviceAlerts(look, events, draft)]
  for (const lane of look.lanes) alerts.push(...laneAlerts(lane, look, events, draft))
  const there = new Set(look.lanes.map((lane) => lane.destinationId))
  return { alerts, ...draft.result((subject) => subject === '' || there.has(subject)) }
}

function* serviceAlerts(
  { nearFull, crash }: Look,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const { holds, isOver, reason } = nearFull
  const isWanted = events.has('buffer.near_full')
  const full = draft.lasts('', 'buffer.near_full', { holds: holds && isWanted, isOver })
  if (full !== null) yield { type: 'buffer.near_full', reason, heldBack: full }
  if (!events.has('daemon.restarted_after_crash')) return
  const crashed = draft.happened('', 'daemon.restarted_after_crash', crash !== null)
  if (crashed !== null)
    yield { type: 'daemon.restarted_after_crash', startedMs: crash?.startedMs ?? null, heldBack: crashed }
}

function* laneAlerts(
  lane: LaneTrouble,
  look: Look,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  yield* failureAlerts(lane, look, events, draft)
  yield* counted(
    { lane, type: 'messages.dropped', current: lane.droppedMessages, gatherMs: 0 },
    look,
    events,
    draft,
  )
  yield* counted(
    { lane, type: 'message.parked', current: lane.parkedRecords, gatherMs: minuteMs },
    look,
    events,
    draft,
  )
  const { oldestPendingMs } = lane
  const holds = oldestPendingMs !== null && look.nowMs - oldestPendingMs > nearRetention * look.undeliveredMs
  const isWanted = events.has('retention.near')
  const near = draft.lasts(lane.destinationId, 'retention.near', { holds: holds && isWanted, isOver: !holds })
  if (near !== null && oldestPendingMs !== null)
    yield { type: 'retention.near', lane, oldestPendingMs, heldBack: near }
}

function* failureAlerts(
  lane: LaneTrouble,
  { nowMs }: Look,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const { destinationId: id, failure, isHalted } = lane
  if (isHalted) return
  const isRaised = () => troubles.some((event) => draft.get(id, event).state === 'raised')
  const wasRaised = isRaised()
  for (const type of troubles) {
    // The same failure was already reported, or held back, as another event.
    const isSaidAlready =
      type === 'lane.failing' && graver.some((event) => draft.get(id, event).state !== 'none')
    const holds = !isSaidAlready && events.has(type) && isSo(type, lane, nowMs)
    const isOver = failure === null && isThrough(lane, draft.get(id, type).sinceMs)
    const heldBack = draft.lasts(id, type, { holds, isOver })
    if (heldBack !== null) yield { type, lane, heldBack }
  }
  const recovered = draft.get(id, 'lane.recovered')
  if (isRaised()) {
    // A held-back recovery is no longer true.
    if (recovered.state === 'held') draft.set({ ...recovered, state: 'none', sinceMs: null })
    return
  }
  if (!events.has('lane.recovered') || failure !== null) return
  const heldBack = draft.happened(id, 'lane.recovered', wasRaised)
  if (heldBack !== null) yield { type: 'lane.recovered', lane, heldBack }
}

function isSo(type: (typeof troubles)[number], { failure }: LaneTrouble, nowMs: number): boolean {
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
function isThrough({ isIdle, lastDeliveredMs }: LaneTrouble, sinceMs: number | null): boolean {
  return isIdle || (lastDeliveredMs !== null && lastDeliveredMs >= (sinceMs ?? 0))
}

interface Counted {
  lane: LaneTrouble
  type: 'message.parked' | 'messages.dropped'
  current: number
  gatherMs: number
}

/**
 * Reports an increase since the last check. After a decrease (a replay) it counts from the lower value. An increase
 * that is not reported yet becomes part of the next one, so none is lost.
 */
function* counted(
  { lane, type, current, gatherMs }: Counted,
  { nowMs, isFirst }: Look,
  events: ReadonlySet<AlertEvent>,
  draft: DraftMarks,
): Generator<AlertFact> {
  const mark = draft.get(lane.destinationId, type)
  const isNews = current > mark.counted && !isFirst && events.has(type)
  if (!isNews) {
    if (current !== mark.counted) draft.set({ ...mark, counted: current, sinceMs: null })
    return
  }
  const sinceMs = mark.sinceMs ?? nowMs
  if (nowMs - sinceMs < gatherMs || !draft.mayTell(mark)) {
    if (mark.sinceMs === null) draft.set({ ...mark, sinceMs })
    return
  }
  draft.set({ ...mark, counted: current, sinceMs: null, toldMs: nowMs })
  yield { type, lane, count: current - mark.counted, heldBack: 0 }
}
