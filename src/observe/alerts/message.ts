/** Alerts as they are sent: one JSON object each (docs/alerts.md), or the same content as a Slack message. Pure. */
import type { AlertEvent, AlertFormat, testAlert } from '../../contract/alert-words.ts'
import { driftLimits, type UnmappedKeys } from '../../contract/drift.ts'
import type { LaneFailure } from '../../delivery/delivery.ts'
import type { DeliveryFault } from '../../destinations/driver.ts'
import { cleanText, cutToCharacters } from '../../destinations/error-text.ts'
import { counted, duration } from '../../platform/quantities.ts'
import { type AlertFact, droppedAfterMs } from './rules.ts'

export interface Named {
  id: string
  name: string
}

/** The workspace, pipe and destination that the alert is about. */
export interface AlertNames {
  workspace: Named
  pipe?: Named
  /** With `pipe`: the lane that the alert is about. */
  destination?: Named & { type: string }
  /** The page in the dashboard. Null: the address of the service is not known. */
  url: string | null
}

/** The format `standard`. Fields that an event does not have are omitted. */
export interface StandardAlert {
  type: AlertEvent | typeof testAlert
  alert_id: string
  timestamp: string
  workspace: Named
  pipe?: Named
  destination?: Named & { type: string }
  /** One line of text for people. */
  message: string
  /** Alerts of this event and lane that were not sent since the last one. */
  held_back: number
  lane?: {
    attempts: number
    first_failed_ts: string
    msg_id: string
    error: { code: string; message: string; fault: DeliveryFault | null } | null
  }
  count?: number
  /** The first unmapped keys, cleaned and truncated. */
  keys?: string[]
  /** Why columns were not added. */
  error?: { code: string; message: string }
  oldest_pending_ts?: string
  dropped_after_hours?: number
  reason?: 'size' | 'disk'
  lag_seconds?: number
  previous_started_ts?: string | null
  url?: string
}

export function standardAlert(
  fact: AlertFact,
  { url, ...about }: AlertNames,
  { alertId, nowMs, undeliveredMs }: { alertId: string; nowMs: number; undeliveredMs: number },
): StandardAlert {
  const where = [about.pipe, about.destination].flatMap((one) => one?.name ?? []).join(' → ')
  return {
    type: fact.type,
    alert_id: alertId,
    timestamp: isoTime(nowMs),
    ...about,
    message: `${sentence(fact, where, nowMs, undeliveredMs)}${heldBackNote(fact.heldBack)}`,
    held_back: fact.heldBack,
    ...details(fact, undeliveredMs),
    ...(url === null ? {} : { url }),
  }
}

export function testMessage(workspace: Named, alertId: string, nowMs: number): StandardAlert {
  return {
    type: 'alert.test',
    alert_id: alertId,
    timestamp: isoTime(nowMs),
    workspace,
    message: `This is a test: alerts of the workspace ${workspace.name} arrive here.`,
    held_back: 0,
  }
}

/** The body of the request. */
export function bodyOf(alert: StandardAlert, format: AlertFormat): string {
  return JSON.stringify(format === 'standard' ? alert : slackMessage(alert))
}

/** Slack displays at most this number of characters of a section. */
const slackCharacters = 2_000

/** Every text is escaped, so that no name can mention a channel or a user, or create a link. */
function slackMessage({ type, message, workspace, url }: StandardAlert): object {
  const text = slackText(message)
  const context = `${type} · ${slackText(workspace.name)}`
  const link = url === undefined ? '' : ` · <${url}|dashboard>`
  return {
    text,
    blocks: [
      { type: 'section', text: { type: 'mrkdwn', text } },
      { type: 'context', elements: [{ type: 'mrkdwn', text: `${context}${link}` }] },
    ],
  }
}

function slackText(text: string): string {
  const characters = [...text]
  const cut = characters.length > slackCharacters ? `${characters.slice(0, slackCharacters).join('')}…` : text
  return cut.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function details(fact: AlertFact, undeliveredMs: number): Partial<StandardAlert> {
  switch (fact.type) {
    case 'lane.failing':
    case 'lane.stuck':
    case 'lane.stalled': {
      const { failure } = fact.lane
      if (failure === null) return {}
      const { attempts, firstFailedMs, msgId, error } = failure
      return {
        lane: {
          attempts,
          first_failed_ts: isoTime(firstFailedMs),
          msg_id: msgId,
          error: error === null ? null : { code: error.code, message: error.message, fault: error.fault },
        },
      }
    }
    case 'lane.recovered':
      return {}
    case 'message.parked':
    case 'messages.dropped':
    case 'pipe.parked':
      return { count: fact.count }
    case 'retention.near':
      return {
        oldest_pending_ts: isoTime(fact.oldestPendingMs),
        dropped_after_hours: droppedAfterMs(fact.lane, undeliveredMs) / 3_600_000,
      }
    case 'lane.drift':
      return { count: fact.unmapped.keys, keys: fact.unmapped.names.map(shownKey) }
    case 'columns.not_added': {
      const { code, message, keys } = fact.failure
      const shown = keys.slice(0, driftLimits.namedKeys).map(shownKey)
      return { count: keys.length, keys: shown, error: { code, message } }
    }
    case 'buffer.near_full':
      return { reason: fact.reason }
    case 'replica.lagging':
      return { lag_seconds: Math.floor(fact.lagMs / 1_000) }
    case 'daemon.restarted_after_crash':
      return { previous_started_ts: fact.startedMs === null ? null : isoTime(fact.startedMs) }
  }
}

function sentence(fact: AlertFact, where: string, nowMs: number, undeliveredMs: number): string {
  const ago = (ms: number) => duration((nowMs - ms) / 1_000)
  switch (fact.type) {
    case 'lane.failing':
    case 'lane.stuck':
    case 'lane.stalled':
      return `${where} ${failureSentence(fact.type, fact.lane.failure, ago)}`
    case 'lane.recovered':
      return `${where} has recovered${fact.lane.isIdle ? ': nothing is waiting' : ': it is delivering again'}.`
    case 'message.parked':
      return `${where}: ${fact.count} parked (records, or whole messages).`
    case 'pipe.parked':
      return `${where}: ${counted(fact.count, 'record')} parked at the pipe for not matching its schema.`
    case 'messages.dropped':
      return `${where}: ${counted(fact.count, 'message')} lost before delivery.`
    case 'retention.near':
      return `${where}: the oldest message has waited for ${ago(fact.oldestPendingMs)} and is dropped after ${duration(droppedAfterMs(fact.lane, undeliveredMs) / 1_000)}.`
    case 'lane.drift':
      return `${where}: ${driftSentence(fact.unmapped)}`
    case 'columns.not_added':
      return `${where}: columns for ${counted(fact.failure.keys.length, 'key')} could not be added (${listed(fact.failure.keys)}): ${fact.failure.message}`
    case 'buffer.near_full':
      return fact.reason === 'size'
        ? 'The buffer of the service is more than 80 % full; when it is full, records are rejected.'
        : 'The disk of the service is nearly full; when it is full, records are rejected.'
    case 'replica.lagging':
      return `The replica of the service is ${duration(fact.lagMs / 1_000)} behind: the loss of the machine would lose what was acknowledged since.`
    case 'daemon.restarted_after_crash':
      return 'The service was restarted after a crash, a kill or a power cut. Accepted records are kept.'
  }
}

function driftSentence({ keys, names }: UnmappedKeys): string {
  return `no column takes ${counted(keys, 'key')} of the records, whose values are not stored: ${listed(names, keys)}.`
}

/** The first keys, and the number of the others. */
function listed(names: readonly string[], count = names.length): string {
  const first = names.slice(0, driftLimits.namedKeys)
  const more = count > first.length ? `, … (${count - first.length} more)` : ''
  return `${first.map((name) => JSON.stringify(shownKey(name))).join(', ')}${more}`
}

/** Keys come from any client: without control and format characters, and cut. */
function shownKey(key: string): string {
  return cutToCharacters(cleanText(key), driftLimits.namedKeyCharacters)
}

function failureSentence(
  type: 'lane.failing' | 'lane.stuck' | 'lane.stalled',
  failure: LaneFailure | null,
  ago: (ms: number) => string,
): string {
  const error = failure?.error == null ? '' : `: ${failure.error.message}`
  if (type === 'lane.stuck')
    return `is stuck: the destination rejects ${failure?.error?.fault === 'records' ? 'a message' : 'everything'}${error}`
  const since = failure === null ? '' : ` for ${ago(failure.firstFailedMs)}`
  const retries = type === 'lane.stalled' ? ' and is now retried every 15 minutes' : ''
  return `has been failing${since}${retries}${error}`
}

function heldBackNote(heldBack: number): string {
  return heldBack === 0
    ? ''
    : ` (and ${counted(heldBack, 'alert')} of this kind held back since the last one)`
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
